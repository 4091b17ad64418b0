//! Does a text say yes or no?
//!
//! A yes or no stands at the beginning. What follows may agree, be polite, or
//! be understood not at all; then the reading is not `clean`, and nothing that
//! releases something is decided by it. What contradicts makes it `mixed`.

use crate::router::reading::words::{Token, tokens};

/// Which way a text leans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lean {
    /// Yes.
    Approve,
    /// No.
    Reject,
    /// Yes and no, or a condition, or asked back.
    Mixed,
}

impl Lean {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Mixed => "mixed",
        }
    }
}

/// What a text says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Which way it leans; nothing for a text that is neither yes nor no.
    pub lean: Option<Lean>,
    /// Whether all of it was understood.
    pub clean: bool,
    /// What follows a no after a comma, a dash, a colon or "because": why.
    pub reason: Option<String>,
}

impl Reading {
    /// A yes of which every word was understood.
    pub fn is_clean_yes(&self) -> bool {
        self.clean && self.lean == Some(Lean::Approve)
    }

    /// A no of which every word was understood.
    pub fn is_clean_no(&self) -> bool {
        self.clean && self.lean == Some(Lean::Reject)
    }
}

/// Longer texts are prose, whatever they begin with.
const LONGEST: usize = 1_000;

/// How a phrase may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Anything; what isn't understood makes the reading unclean.
    Open,
    /// Only `with …` or nothing: these are verbs of ordinary requests too.
    Verb,
    /// Nothing that isn't understood: too short to carry a sentence.
    Short,
    /// A verb that it forbids.
    Negation,
}

struct Phrase {
    words: &'static [&'static str],
    lean: Lean,
    tail: Tail,
}

macro_rules! phrases {
    ($($lean:ident $tail:ident: $([$($word:literal),+])+;)+) => {
        &[$($(Phrase { words: &[$($word),+], lean: Lean::$lean, tail: Tail::$tail }),+),+]
    };
}

/// Longer phrases stand before the shorter ones that they begin with.
static PHRASES: &[Phrase] = phrases! {
    Approve Open: ["approve", "once"] ["approve", "it"] ["approved"] ["approve"];
    Approve Open: ["yes"] ["yeah"] ["yep"] ["yup"] ["okay"] ["ok"] ["sure"];
    Approve Open: ["absolutely"] ["definitely"] ["certainly"] ["of", "course"] ["agreed"];
    Approve Open: ["go", "ahead"] ["go", "for", "it"] ["do", "it"] ["do", "that"] ["do", "this"];
    Approve Open: ["send", "it"] ["sounds", "good"] ["looks", "good"] ["please", "do"];
    Approve Open: ["let's", "do", "it"] ["lets", "do", "it"] ["let's", "go"] ["ship", "it"];
    Approve Open: ["👍"] ["✅"] ["👌"];
    Approve Verb: ["proceed"] ["continue"] ["carry", "on"] ["confirmed"] ["confirm"];
    Approve Verb: ["allow", "it"] ["allow"];
    Approve Short: ["y"];
    Reject Negation: ["please", "don't"] ["don't"] ["dont"] ["do", "not"];
    Reject Open: ["no", "way"] ["no", "thanks"] ["no"] ["nope"] ["nah"] ["rejected"] ["denied"];
    Reject Open: ["never", "mind"] ["nevermind"] ["reject"] ["deny"] ["declined"] ["decline"];
    Reject Verb: ["cancelled"] ["canceled"] ["cancel"] ["discard"] ["stop"] ["blocked"] ["block"];
    Reject Open: ["👎"] ["❌"] ["🚫"];
    Reject Short: ["n"];
};

/// Words that add nothing.
const POLITE: &[&str] = &[
    "please", "pls", "plz", "thanks", "thank", "thx", "ty", "you", "now", "then", "it", "that",
    "this", "them", "so", "yet", "once", "sir", "mate", "cheers",
];

/// Words that take back or bind what was said.
const TURNS: &[&str] = &[
    "but",
    "however",
    "except",
    "instead",
    "unless",
    "until",
    "if",
    "wait",
    "first",
    "before",
    "after",
    "when",
    "although",
    "though",
    "not",
    "never",
    "only",
    "later",
    "tomorrow",
    "without",
    "change",
    "hold",
    "almost",
    "maybe",
    "perhaps",
    "don't",
    "dont",
    "can't",
    "won't",
    "shouldn't",
    "not-yet",
    "not-now",
];

/// Reads `text`.
pub fn read(text: &str) -> Reading {
    let nothing = Reading::default();
    let trimmed = text.trim_start();
    if text.len() > LONGEST || trimmed.starts_with(['"', '“', '”', '«', '\'', '‘', '„']) {
        return nothing;
    }
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    if let [first, tail @ ..] = rest
        && first.text == "please"
        && phrase_at(rest).is_none()
    {
        rest = tail;
    }
    let Some(head) = phrase_at(rest) else { return nothing };
    let rest = rest.get(head.words.len()..).unwrap_or_default();
    if rest.first().is_some_and(|t| matches!(t.text.as_ref(), "/" | "'" | "\"")) {
        return nothing;
    }
    let remainder = Remainder::of(rest, head);
    if remainder.is_foreign && matches!(head.tail, Tail::Verb | Tail::Short) {
        return nothing;
    }
    if remainder.contradicts || remainder.asks {
        return Reading { lean: Some(Lean::Mixed), clean: false, reason: None };
    }
    let reason = if head.lean == Lean::Reject { reason(text, rest) } else { None };
    Reading { lean: Some(head.lean), clean: !remainder.is_unclear, reason }
}

fn phrase_at(tokens: &[Token<'_>]) -> Option<&'static Phrase> {
    PHRASES.iter().find(|phrase| {
        tokens.len() >= phrase.words.len()
            && phrase.words.iter().zip(tokens).all(|(word, token)| token.text == *word)
    })
}

/// What comes after the phrase at the beginning.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "four findings, each of its own")]
struct Remainder {
    /// Something was not understood.
    is_unclear: bool,
    /// Something was not understood and doesn't begin with "with".
    is_foreign: bool,
    /// Something takes it back.
    contradicts: bool,
    /// It is a question.
    asks: bool,
}

impl Remainder {
    fn of(mut rest: &[Token<'_>], head: &Phrase) -> Self {
        let mut seen = Self::default();
        let forbids = head.tail == Tail::Negation;
        // Nothing that follows can mend a contradiction; only after a verb does
        // it matter whether something foreign follows too.
        let may_stop = matches!(head.tail, Tail::Open | Tail::Negation);
        let mut is_with = false;
        while let Some(token) = rest.first() {
            if may_stop && (seen.contradicts || seen.asks) {
                break;
            }
            if let Some(next) = phrase_at(rest) {
                // "don't proceed" forbids; "no, cancel" agrees with itself.
                let is_short_word = next.tail == Tail::Short && is_with;
                seen.contradicts |= next.lean != head.lean && !forbids && !is_short_word;
                rest = rest.get(next.words.len()..).unwrap_or_default();
                continue;
            }
            let word = token.text.as_ref();
            let is_not_yet = word == "not"
                && head.lean == Lean::Reject
                && rest.get(1).is_some_and(|t| matches!(t.text.as_ref(), "yet" | "now" | "today"));
            if is_not_yet {
                rest = rest.get(2..).unwrap_or_default();
                continue;
            }
            match word {
                "?" | "？" | "؟" => seen.asks = true,
                _ if !token.is_word => {
                    seen.is_unclear |= !matches!(
                        word,
                        "," | "." | "!" | ";" | ":" | "-" | "–" | "—" | "…" | "🙂" | "🙏" | "😀"
                    );
                }
                _ if POLITE.contains(&word) => {}
                _ if TURNS.contains(&word) && head.lean == Lean::Approve => {
                    seen.contradicts = true;
                }
                "with" if !seen.is_foreign => {
                    is_with = true;
                    seen.is_unclear = true;
                }
                _ => {
                    seen.is_unclear = true;
                    seen.is_foreign |= !is_with;
                }
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        seen
    }
}

/// The words after a no, if a mark or "because" sets them off as a reason.
fn reason(text: &str, rest: &[Token<'_>]) -> Option<String> {
    let rest = match rest {
        [polite, tail @ ..] if POLITE.contains(&polite.text.as_ref()) => tail,
        _ => rest,
    };
    let first = rest.first()?;
    let is_set_off = matches!(
        first.text.as_ref(),
        "," | "." | ":" | ";" | "-" | "–" | "—" | "because" | "since"
    );
    let from = if first.is_word { first.span.start } else { first.span.end };
    let why = text.get(from..)?.trim();
    let says_more = rest.iter().any(|t| t.is_word && !POLITE.contains(&t.text.as_ref()));
    (is_set_off && says_more).then(|| why.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("yes", Some(Lean::Approve), true)]
    #[case("Yes!!", Some(Lean::Approve), true)]
    #[case("yes please", Some(Lean::Approve), true)]
    #[case("ok, go ahead. thanks!", Some(Lean::Approve), true)]
    #[case("👍🏽", Some(Lean::Approve), true)]
    #[case("yes go ahead with the plan", Some(Lean::Approve), false)]
    #[case("yes please and also mail Bob", Some(Lean::Approve), false)]
    #[case("ok sounds fine", Some(Lean::Approve), false)]
    #[case("yes, no", Some(Lean::Mixed), false)]
    #[case("no, yes", Some(Lean::Mixed), false)]
    #[case("yes if the tests pass", Some(Lean::Mixed), false)]
    #[case("ok?", Some(Lean::Mixed), false)]
    #[case("yes, not-yet", Some(Lean::Mixed), false)]
    #[case("no thanks", Some(Lean::Reject), true)]
    #[case("don't", Some(Lean::Reject), true)]
    #[case("please don’t do it", Some(Lean::Reject), true)]
    #[case("no idea what this is", Some(Lean::Reject), false)]
    #[case("stop the music", None, false)]
    #[case("cancel my three o'clock", None, false)]
    #[case("y all come", None, false)]
    fn a_text_reads_as(#[case] text: &str, #[case] lean: Option<Lean>, #[case] clean: bool) {
        let reading = read(text);
        assert_eq!((reading.lean, reading.clean), (lean, clean), "{text}");
    }

    #[rstest]
    #[case("no, use staging instead", Some("use staging instead"))]
    #[case("deny: wrong cluster", Some("wrong cluster"))]
    #[case("no because it is Friday", Some("because it is Friday"))]
    #[case("no idea", None)]
    #[case("no, thanks", None)]
    #[case("yes, please", None)]
    fn a_reason_follows_a_no_and_a_mark(#[case] text: &str, #[case] reason: Option<&str>) {
        assert_eq!(read(text).reason.as_deref(), reason);
    }

    proptest! {
        #[test]
        fn reading_is_total(text in "(?s).{0,200}") {
            let _ = read(&text);
        }

        #[test]
        fn words_that_are_not_understood_never_make_a_clean_yes(
            text in "[a-z' ]{0,30}",
            before in "(zebra|quark|deploy) ",
            after in " (zebra|quark|deploy|but|if|not)",
        ) {
            let appended = format!("{text}{after}");
            let prepended = format!("{before}{text}");
            prop_assert!(!read(&appended).is_clean_yes(), "{}", appended);
            prop_assert!(!read(&prepended).is_clean_yes(), "{}", prepended);
        }
    }
}

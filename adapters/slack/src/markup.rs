//! Slack's own markup: what of ours must not be taken for it, and what people
//! meant by it.

/// Text that nothing in it is taken for a mention or a link.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// What a person wrote, as they wrote it: links and mentions become words, the
/// three escapes become characters, once. A mention of `bot` at an end of it is
/// how it is spoken to, and is left out; whether there was one.
pub(crate) fn plain(text: &str, bot: &str) -> (String, bool) {
    let mention = format!("<@{bot}>");
    let named = format!("<@{bot}|");
    let mut rest = text.trim();
    let mut is_spoken_to = false;
    loop {
        let before = rest;
        if let Some(after) = rest.strip_prefix(&mention) {
            rest = after;
        } else if let Some(after) = rest.strip_prefix(&named) {
            rest = after.split_once('>').map_or("", |(_, after)| after);
        } else if let Some(start) = rest.strip_suffix(&mention) {
            rest = start;
        }
        if rest == before {
            break;
        }
        is_spoken_to = true;
        rest = rest.trim_start_matches([',', ':']).trim();
    }
    let mut plain = String::with_capacity(rest.len());
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(before);
        let Some((tag, after)) = after.split_once('>') else {
            plain.push('<');
            rest = after;
            continue;
        };
        plain.push_str(&tag_words(tag));
        rest = after;
    }
    plain.push_str(rest);
    (unescape(&plain), is_spoken_to)
}

/// The words that stand for `<…>`.
fn tag_words(tag: &str) -> String {
    let (target, label) = match tag.split_once('|') {
        Some((target, label)) => (target, Some(label)),
        None => (tag, None),
    };
    for mark in ['@', '#'] {
        if let Some(id) = target.strip_prefix(mark) {
            return format!("{mark}{}", label.unwrap_or(id));
        }
    }
    match target.strip_prefix('!') {
        // A date, a group: the words that Slack shows to those who can't.
        Some(special) if special.contains('^') => label.unwrap_or_default().to_owned(),
        Some(special) => format!("@{special}"),
        None => label.unwrap_or(target).to_owned(),
    }
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("A1B2C3 approve", "A1B2C3 approve", false)]
    #[case("<@U0BOT> A1B2C3 approve", "A1B2C3 approve", true)]
    #[case("<@U0BOT>, yes", "yes", true)]
    #[case("<@U0BOT|sayso>: yes", "yes", true)]
    #[case("yes <@U0BOT>", "yes", true)]
    #[case("<@U0BOTTY> yes", "@U0BOTTY yes", false)]
    #[case("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d", false)]
    #[case("&amp;lt;", "&lt;", false)]
    #[case("see <https://a.example/x?a=1&amp;b=2>", "see https://a.example/x?a=1&b=2", false)]
    #[case("see <https://a.example|a.example>", "see a.example", false)]
    #[case("<mailto:a@b.example|a@b.example>", "a@b.example", false)]
    #[case("<#C1|general> <!here> <!date^1^{date}|today>", "#general @here today", false)]
    #[case("a < b", "a < b", false)]
    fn what_was_written_is_read(#[case] text: &str, #[case] expected: &str, #[case] spoken: bool) {
        assert_eq!(plain(text, "U0BOT"), (expected.to_owned(), spoken));
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_read_as_it_was(text in "\\PC{0,80}") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>']));
            prop_assert_eq!(plain(&escaped, "U0BOT").0, text.trim());
        }
    }
}

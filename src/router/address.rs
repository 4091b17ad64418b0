//! Stages: a code, and a reply to a card. Either names one request; what else
//! is said is read as an answer to it, and what isn't understood is a question
//! from the person, never an approval.

use std::ops::Range;

use crate::decisions::{Actor, Means, Verdict};
use crate::requests::code::Code;
use crate::requests::{Answer, Kind, Request};
use crate::router::intent::Intent;
use crate::router::reading;
use crate::router::{Outcome, wording};
use crate::store::strangers::Account;
use crate::store::{self, StoreError, Tx};

/// What a text with a code means; `None` when no code stands where people put
/// one: at the beginning or at the end.
pub(super) async fn by_code(
    tx: &mut Tx,
    actor: &Actor,
    account: Account<'_>,
    text: &str,
) -> Result<Option<Intent>, StoreError> {
    let codes = Code::find_all(text);
    let has_code = !codes.is_empty();
    if has_code && store::guesses::is_locked(tx, account).await? {
        let is_addressed = codes.iter().any(|(_, span)| is_at_an_end(text, span));
        return Ok(is_addressed.then_some(Intent::Unread));
    }
    let mut mine: Vec<(Request, Range<usize>)> = Vec::new();
    let mut is_addressed = false;
    for (code, span) in codes {
        let found = store::requests::find_by_code(tx, code).await?;
        if let Some(request) = found.filter(|r| r.guardian == actor.principal) {
            if mine.iter().all(|(known, _)| known.id != request.id) {
                mine.push((request, span));
            }
        } else {
            is_addressed |= is_at_an_end(text, &span);
        }
    }
    if mine.len() > 1 {
        let requests = mine.into_iter().map(|(request, _)| request).collect();
        return Ok(Some(Intent::Disambiguate(requests)));
    }
    if let Some((request, span)) = mine.pop() {
        let rest = without(text, &span);
        return Ok(Some(about(request, &rest, Means::Code)));
    }
    // A verb with something that is nearly a code means a request, not an answer.
    is_addressed |= Code::find_lookalikes(text)
        .iter()
        .any(|span| is_at_an_end(text, span) && reading::read(&without(text, span)).lean.is_some());
    if !is_addressed {
        return Ok(None);
    }
    // The same words whether it is unknown or somebody else's.
    let is_too_many = has_code && store::guesses::count(tx, account).await?;
    let words = if is_too_many { wording::TOO_MANY_CODES } else { wording::NOT_FOUND };
    Ok(Some(Intent::Say(Outcome::NotFound, words.to_owned())))
}

/// What a text about one request means.
pub(super) fn about(request: Request, text: &str, means: Means) -> Intent {
    let verdict = match request.content.kind {
        Kind::ToolApproval => about_tool(&request, text),
        Kind::Question => about_question(&request, text),
        Kind::AccessRequest => about_access(text),
    };
    match verdict {
        Said::Verdict(verdict) => Intent::Decide { request: request.id, verdict, means },
        Said::Show => Intent::Reveal(request),
        Said::Nothing => Intent::Clarify(request),
    }
}

enum Said {
    Verdict(Verdict),
    Show,
    Nothing,
}

fn about_tool(_request: &Request, text: &str) -> Said {
    if is_show(text) {
        return Said::Show;
    }
    let reading = reading::read(text);
    if reading.is_clean_yes() {
        return Said::Verdict(Verdict::Approve);
    }
    let is_no = reading.lean == Some(reading::Lean::Reject);
    if is_no && (reading.clean || reading.reason.is_some()) {
        return Said::Verdict(Verdict::Deny { reason: reading.reason });
    }
    Said::Nothing
}

fn about_question(request: &Request, text: &str) -> Said {
    let text = text.trim();
    if text.is_empty() {
        return Said::Nothing;
    }
    if request.content.options.is_empty() && !request.content.allow_text {
        return Said::Nothing;
    }
    answer(request, text).map_or(Said::Nothing, Said::Verdict)
}

/// The answer that a text gives to a question: an option by its number, its
/// words or its id, "skip", or, where the question allows it, the text itself.
pub(super) fn answer(request: &Request, text: &str) -> Option<Verdict> {
    let content = &request.content;
    if is_skip(text) {
        return Some(Verdict::Skip);
    }
    let (named, by_place) = options_meant(request, text);
    let index = match (named, by_place) {
        // "2" may be the words of the first option and the place of the second.
        (Some(named), Some(place)) if named != place => return None,
        (named, place) => named.or(place),
    };
    if let Some(option) = index.and_then(|i| content.options.get(i)) {
        let answer = Answer { option: Some(option.id.clone()), text: None };
        return Some(Verdict::Answer(answer));
    }
    content
        .allow_text
        .then(|| Verdict::Answer(Answer { option: None, text: Some(text.trim().to_owned()) }))
}

/// Whether the text says that there will be no answer.
pub(super) fn is_skip(text: &str) -> bool {
    fold(text) == "skip"
}

/// Whether the text picks or names one of the request's options.
pub(super) fn names_option(request: &Request, text: &str) -> bool {
    let (named, by_place) = options_meant(request, text);
    named.or(by_place).is_some()
}

/// The option that a text names by its words or its id, and the one that it
/// picks by its place.
fn options_meant(request: &Request, text: &str) -> (Option<usize>, Option<usize>) {
    let (options, folded) = (&request.content.options, fold(text));
    let by_label = options.iter().position(|o| fold(&o.label) == folded);
    let by_id = options.iter().position(|o| fold(&o.id) == folded);
    (by_label.or(by_id), reading::pick(text, options.len()))
}

fn fold(text: &str) -> String {
    text.trim()
        .trim_end_matches(['.', '!'])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

fn about_access(text: &str) -> Said {
    match access_verb(text) {
        Some(verdict) => Said::Verdict(verdict),
        None => Said::Nothing,
    }
}

/// The verbs that an access request takes.
pub(super) fn access_verb(text: &str) -> Option<Verdict> {
    match fold(text).as_str() {
        "trust" | "trust them" | "verify" | "verify them" | "approve" | "yes" => {
            Some(Verdict::Approve)
        }
        "park" | "not now" | "no" | "reject" | "deny" | "block" | "block them" | "ban"
        | "ban them" => Some(Verdict::Deny { reason: None }),
        _ => None,
    }
}

fn is_show(text: &str) -> bool {
    matches!(fold(text).as_str(), "show" | "show all" | "show me" | "open")
}

fn is_at_an_end(text: &str, span: &Range<usize>) -> bool {
    let has_word = |part: Option<&str>| part.is_some_and(|p| p.chars().any(char::is_alphanumeric));
    !has_word(text.get(..span.start)) || !has_word(text.get(span.end..))
}

/// The text without the code and the marks around it.
fn without(text: &str, span: &Range<usize>) -> String {
    const WRAPPERS: &[char] = &['*', '_', '~', '`', '"', '“', '”', '#', '(', ')', '[', ']'];
    const JOINTS: &[char] = &[':', ',', ';', '-', '–', '—', '.', '>'];
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    let trim = |c: char| c.is_whitespace() || WRAPPERS.contains(&c);
    let joint = |c: char| trim(c) || JOINTS.contains(&c);
    let before = before.trim_start_matches(trim).trim_end_matches(joint);
    let after = after.trim_start_matches(joint).trim_end_matches(trim);
    match (before.is_empty(), after.is_empty()) {
        (true, _) => after.to_owned(),
        (_, true) => before.to_owned(),
        (false, false) => format!("{before} {after}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("{} approve", "approve")]
    #[case("approve {}", "approve")]
    #[case("#{}: approve", "approve")]
    #[case("**`{}`** reject", "reject")]
    #[case("**{} approve**", "approve")]
    #[case("\"{}—approve\"", "approve")]
    #[case("{}\napprove", "approve")]
    #[case("{}", "")]
    #[case("{} 3pm works.", "3pm works.")]
    #[case("{} a \"b\" c", "a \"b\" c")]
    fn a_code_is_taken_out_with_its_marks(#[case] pattern: &str, #[case] rest: &str) {
        let text = pattern.replace("{}", Code::random().as_str());
        let (_, span) = Code::find_all(&text).remove(0);
        assert_eq!(without(&text, &span), rest, "{text}");
    }
}

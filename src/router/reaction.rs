//! Stage: an emoji on a card. Only a thumb counts, whatever its tone: up is the
//! narrowest yes, down is no. Exactly the card it was put on is meant.

use crate::decisions::{Means, Verdict};
use crate::requests::Kind;
use crate::router::intent::Intent;
use crate::store::{self, StoreError, Tx};

pub(super) async fn read(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    emoji: &str,
    message: &str,
) -> Result<Intent, StoreError> {
    let thumbs: Vec<bool> = emoji.split(' ').filter_map(thumb).collect();
    let Some(is_up) = thumbs.first().copied() else { return Ok(Intent::Nothing) };
    let found = store::requests::find_by_message(tx, channel, address, message).await?;
    let Some(request) = found.filter(|r| !r.status.is_final()) else { return Ok(Intent::Nothing) };
    // Up and down at once says nothing; nor does a thumb answer a question.
    if request.content.kind == Kind::Question || thumbs.contains(&!is_up) {
        return Ok(Intent::Clarify(request));
    }
    let verdict = if is_up { Verdict::Approve } else { Verdict::Deny { reason: None } };
    Ok(Intent::Decide { request: request.id, verdict, means: Means::Reaction })
}

/// Up, down, or no thumb: the emoji itself or a short name of it.
fn thumb(emoji: &str) -> Option<bool> {
    let name = emoji.split("::").next().unwrap_or_default().trim_matches(':');
    let bare: String = name
        .chars()
        .filter(|c| !matches!(c, '\u{fe0e}' | '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}'))
        .collect();
    match bare.as_str() {
        "👍" | "+1" | "thumbsup" => Some(true),
        "👎" | "-1" | "thumbsdown" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("👍", Some(true))]
    #[case("👍🏽", Some(true))]
    #[case("+1::skin-tone-3", Some(true))]
    #[case("thumbsup", Some(true))]
    #[case("👎️", Some(false))]
    #[case("-1", Some(false))]
    #[case("🎉", None)]
    #[case("x", None)]
    #[case("", None)]
    #[case("white_check_mark", None)]
    fn only_a_thumb_counts(#[case] emoji: &str, #[case] expected: Option<bool>) {
        assert_eq!(thumb(emoji), expected, "{emoji}");
    }
}

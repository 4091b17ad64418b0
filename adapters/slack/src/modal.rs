//! Windows in which somebody types words: why not, or an answer of their own.

use sayso_channel::text::{Unit, shorten_in};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slack_morphism::prelude::{
    SlackApiViewsOpenRequest, SlackBlock, SlackBlockPlainTextInputElement, SlackInputBlock,
    SlackModalView, SlackView,
};

use crate::envelope::text;
use crate::render::words_only;

/// Characters of a window's title and of the words on its buttons.
const TITLE: usize = 24;
/// Characters that fit into the field for words.
const WORDS: u64 = 2_000;
/// UTF-16 code units of a block's id.
const BLOCK_ID: usize = 255;
/// What the button is called that asks for words of one's own.
pub(crate) const REPLY: &str = "reply";

/// What a window is about; it travels with it and comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// The token of the button; nothing when the words are a reply to the card.
    pub(crate) token: Option<String>,
    /// The conversation that the card stands in.
    pub(crate) channel: String,
    /// Whether nobody else reads it.
    pub(crate) is_private: bool,
    /// The card.
    pub(crate) message: Option<String>,
}

impl Asked {
    pub(crate) fn parse(metadata: &str) -> Option<Self> {
        serde_json::from_str(metadata).ok()
    }
}

/// The id of a row of buttons that says which of them ask for words, and how:
/// whatever else comes back with a click, this does.
pub(crate) fn row_id(asking: &[(&str, &str)]) -> String {
    let mut id = "row".to_owned();
    for (button, words) in asking {
        let words = words.replace(char::is_control, " ");
        let more = format!("\n{}\t{words}", ending(button));
        let room = BLOCK_ID.saturating_sub(Unit::Utf16.len(&id));
        // What is left must name the button at least.
        if room >= ending(button).len() + 4 {
            id.push_str(&shorten_in(Unit::Utf16, &more, room));
        }
    }
    id
}

/// Tokens are long; their endings tell buttons of one card apart.
fn ending(token: &str) -> &str {
    token.rsplit(':').next().unwrap_or(token)
}

/// The words with which a clicked button asks for words, if it does.
pub(crate) fn asks_for(payload: &Value) -> Option<&str> {
    let action = payload.pointer("/actions/0")?;
    let button = ending(text(action, "/action_id")?);
    let rows = text(action, "/block_id")?.split('\n').skip(1);
    let mut found = rows.filter_map(|row| row.split_once('\t'));
    found.find(|(asking, _)| *asking == button).map(|(_, words)| words)
}

/// The window that asks for them.
pub(crate) fn window(trigger: &str, asks_for: &str, asked: &Asked) -> SlackApiViewsOpenRequest {
    let title = if asked.token.is_some() { "One more thing" } else { "Your answer" };
    let field = SlackBlockPlainTextInputElement::new()
        .with_action_id("words".into())
        .with_multiline(true)
        .with_max_length(WORDS)
        .with_focus_on_load(true);
    let input = SlackInputBlock::new(words_only(asks_for, 2_000), field.into())
        .with_block_id("words".into());
    let view = SlackModalView::new(words_only(title, TITLE), vec![SlackBlock::Input(input)])
        .with_submit(words_only("Send", TITLE))
        .with_close(words_only("Cancel", TITLE))
        .with_callback_id("words".into())
        .with_private_metadata(serde_json::to_string(asked).unwrap_or_default());
    SlackApiViewsOpenRequest::new(trigger.to_owned().into(), SlackView::Modal(view))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_click_says_whether_its_button_asks_for_words() {
        let id = row_id(&[("apr:x:reject_reason", "Why not?")]);
        let click = |button: &str| json!({ "actions": [{ "action_id": button, "block_id": id }] });
        assert_eq!(asks_for(&click("apr:x:reject_reason")), Some("Why not?"));
        assert_eq!(asks_for(&click("apr:x:reject")), None);
        assert_eq!(asks_for(&json!({ "actions": [{ "action_id": "apr:x:reject_reason" }] })), None);
        assert_eq!(asks_for(&json!({})), None);
    }

    #[test]
    fn a_rows_id_is_never_too_long() {
        let long = "🎉".repeat(300);
        let id = row_id(&[("a:b", &long), ("a:c", "Why?")]);
        assert!(Unit::Utf16.len(&id) <= BLOCK_ID);
        let click = json!({ "actions": [{ "action_id": "a:b", "block_id": id }] });
        assert!(asks_for(&click).unwrap().starts_with("🎉🎉"), "cut, but it still asks");
    }
}

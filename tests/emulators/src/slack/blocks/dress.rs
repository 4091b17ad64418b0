//! What Slack fills in before it keeps blocks: names that the app left out, and
//! what is so by default.

use serde_json::Value;

/// Names and defaults for the blocks of a message.
pub(in crate::slack) fn dress(blocks: &mut [Value], mut name: impl FnMut() -> String) {
    for block in blocks {
        if block["block_id"].as_str().is_none_or(str::is_empty) {
            block["block_id"] = name().into();
        }
        walk(block, &mut name);
    }
}

/// The same for those of a view.
pub(in crate::slack) fn dress_view(view: &mut Value, name: impl FnMut() -> String) {
    for part in ["title", "close", "submit"] {
        if let Some(text) = view.get_mut(part).filter(|text| text.is_object()) {
            text["emoji"] = text.get("emoji").cloned().unwrap_or(Value::Bool(true));
        }
    }
    if let Some(blocks) = view["blocks"].as_array_mut() {
        dress(blocks, name);
    }
}

const UNNAMED: &[&str] = &["image", "plain_text", "mrkdwn"];

fn walk(value: &mut Value, name: &mut impl FnMut() -> String) {
    if value["type"] == "rich_text" {
        return;
    }
    match value["type"].as_str() {
        Some("plain_text") if value.get("emoji").is_none() => value["emoji"] = true.into(),
        Some("mrkdwn") if value.get("verbatim").is_none() => value["verbatim"] = false.into(),
        _ => {}
    }
    for part in
        ["text", "accessory", "element", "label", "hint", "placeholder", "confirm", "title", "deny"]
    {
        let Some(inner) = value.get_mut(part).filter(|inner| inner.is_object()) else { continue };
        if ["accessory", "element"].contains(&part) {
            give_name(inner, name);
        }
        walk(inner, name);
    }
    let is_actions = value["type"] == "actions";
    for part in ["elements", "fields", "options"] {
        for inner in value.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten() {
            if part == "elements" && is_actions {
                give_name(inner, name);
            }
            walk(inner, name);
        }
    }
}

fn give_name(element: &mut Value, name: &mut impl FnMut() -> String) {
    let is_unnamed = element["type"].as_str().is_none_or(|kind| UNNAMED.contains(&kind));
    if !is_unnamed && element["action_id"].as_str().is_none() {
        element["action_id"] = name().into();
    }
}

//! Text whose looks are given as structure.

use serde_json::Value;

use crate::slack::blocks::Check;

impl Check {
    /// The parts of a `rich_text` block.
    pub(super) fn rich_text(&mut self, parts: &Value, at: &str) {
        for (index, part) in self.array(parts, at, 0, usize::MAX).iter().enumerate() {
            let at = format!("{at}/{index}");
            match part["type"].as_str() {
                Some("rich_text_section") => self.run(part, &at, &[], false),
                Some("rich_text_quote") => self.run(part, &at, &["border"], false),
                Some("rich_text_preformatted") => self.run(part, &at, &["border"], true),
                Some("rich_text_list") => self.list(part, &at),
                Some(other) => {
                    self.fault(&format!("{at}/type"), &format!("unsupported type: {other}"));
                }
                None => self.fault(&at, "missing required field: type"),
            }
        }
    }

    fn list(&mut self, list: &Value, at: &str) {
        let allowed = ["indent", "offset", "border"];
        let Some(fields) = self.object(list, at, &["style", "elements"], &allowed) else { return };
        self.word(fields, "style", at, &["bullet", "ordered"]);
        let at = format!("{at}/elements");
        for (index, entry) in self.array(&list["elements"], &at, 0, usize::MAX).iter().enumerate() {
            let at = format!("{at}/{index}");
            if entry["type"] == "rich_text_section" {
                self.run(entry, &at, &[], false);
            } else {
                self.fault(&format!("{at}/type"), "must be a valid enum value");
            }
        }
    }

    /// A run of text, links, people and emoji.
    fn run(&mut self, part: &Value, at: &str, allowed: &[&str], is_preformatted: bool) {
        if self.object(part, at, &["elements"], allowed).is_none() {
            return;
        }
        let at = format!("{at}/elements");
        for (index, inline) in self.array(&part["elements"], &at, 0, usize::MAX).iter().enumerate()
        {
            let at = format!("{at}/{index}");
            let kind = inline["type"].as_str().unwrap_or_default();
            if is_preformatted && !["text", "link"].contains(&kind) {
                self.fault(&format!("{at}/type"), &format!("unsupported type: {kind}"));
                continue;
            }
            self.inline(inline, kind, &at);
        }
    }

    fn inline(&mut self, inline: &Value, kind: &str, at: &str) {
        let (needed, allowed): (&[&str], &[&str]) = match kind {
            "text" => (&["text"], &["style"]),
            "link" => (&["url"], &["text", "unsafe", "style"]),
            "user" => (&["user_id"], &["style"]),
            "usergroup" => (&["usergroup_id"], &["style"]),
            "channel" => (&["channel_id"], &["style"]),
            "emoji" => (&["name"], &["unicode", "skin_tone", "style", "display_url"]),
            "broadcast" => (&["range"], &["style"]),
            "color" => (&["value"], &["style"]),
            "date" => (&["timestamp", "format"], &["url", "fallback", "style"]),
            "" => return self.fault(at, "missing required field: type"),
            other => {
                let words = format!("unsupported type: {other}");
                return self.fault(&format!("{at}/type"), &words);
            }
        };
        let Some(fields) = self.object(inline, at, needed, allowed) else { return };
        for name in ["text", "url", "user_id", "channel_id", "usergroup_id", "name"] {
            self.string(fields.get(name), &format!("{at}/{name}"), 1, usize::MAX - 1);
        }
        self.word(fields, "range", at, &["here", "channel", "everyone"]);
        if let Some(style) = fields.get("style") {
            let at = format!("{at}/style");
            let styles = [
                "bold",
                "italic",
                "strike",
                "code",
                "underline",
                "highlight",
                "client_highlight",
                "unlink",
            ];
            if let Some(styled) = self.object(style, &at, &[], &styles) {
                for name in styles {
                    self.boolean(styled, name, &at);
                }
            }
        }
    }
}

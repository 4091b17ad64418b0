//! What commands print: words for people, or JSON.

use std::io::{self, Write};

use serde::Serialize;

/// Where a command's results go.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Whether JSON is wanted.
    pub json: bool,
}

#[expect(clippy::unused_self, reason = "whoever prints must have been given the place")]
impl Output {
    /// One line of the result.
    pub fn line(self, text: &str) {
        // A reader that has gone away is no reason to fail.
        let _ = writeln!(io::stdout(), "{text}");
    }

    /// The result: as JSON if wanted, else in words.
    pub fn result(self, value: &impl Serialize, words: impl FnOnce() -> String) {
        if self.json {
            self.line(&serde_json::to_string(value).unwrap_or_default());
        } else {
            self.line(words().trim_end());
        }
    }

    /// Something on the side, for people.
    pub fn note(self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

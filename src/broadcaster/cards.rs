//! Request → card, open and closed. Pure; built once, drawn by every channel.

use sayso_channel::text::{Unit, head_and_tail_in, shorten, shorten_in};
use sayso_channel::{Action as Button, Block, Card, Emphasis, Fact, Tone};

use crate::display::{Safe, make_safe, make_safe_words, mask_member, on_one_line};
use crate::requests::action::{Action, Callback};
use crate::requests::status::Status;
use crate::requests::{Content, Kind, Request, Risk};
use crate::wording;

/// What a place can show, and what was asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// UTF-16 code units of exact text and of options that fit.
    pub exact_units: usize,
    /// Whether the person asked to see everything.
    pub is_opened: bool,
}

/// A card, and whether everything is on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// The card.
    pub card: Card,
    /// Whether no part of the exact text was left out.
    pub is_whole: bool,
}

/// Draws the request as it stands.
pub fn draw(request: &Request, view: View) -> Drawn {
    let mut painter = Painter::default();
    let mut exact = exact_parts(request, &mut painter);
    let title = title(request, &mut painter);
    let labels = request.content.options.iter();
    let mut items: Vec<String> = labels.map(|o| painter.words(&o.label)).collect();
    let of_items: usize = items.iter().map(|item| Unit::Utf16.len(item) + 8).sum();
    let tool = request.content.tool.as_ref().map_or(String::new(), |t| painter.words(&t.name));
    let of_title = Unit::Utf16.len(&title) + Unit::Utf16.len(&tool);
    let total = exact.iter().map(Part::units).sum::<usize>() + of_items + of_title;
    let is_whole = view.is_opened || total <= view.exact_units;
    if !is_whole {
        // Options are what is chosen from: they may have half of the room.
        let of_items = of_items.min(view.exact_units / 2);
        cut(&mut exact, view.exact_units - of_items);
        let each = of_items / items.len().max(1);
        for item in &mut items {
            *item = shorten_in(Unit::Utf16, item, each.saturating_sub(8));
        }
    }

    let is_open = request.status == Status::Pending;
    let actions = if is_open { actions(request, is_whole, &items) } else { Vec::new() };
    let mut blocks: Vec<Block> = exact.into_iter().map(Part::into_block).collect();
    if !items.is_empty() {
        blocks.push(Block::Items(items));
    }
    if is_open {
        blocks.extend(painter.warnings(request, is_whole).into_iter().map(Block::Warning));
    }
    blocks.push(Block::Facts(facts(request, &mut painter)));
    let card = Card {
        title,
        status: wording::status(request),
        tone: tone(request.status),
        blocks,
        actions,
        invites_reply: is_open.then(|| wording::invitation(request)).flatten(),
        expires_at: is_open.then(|| request.deadline.to_system()),
        reference: request.code.to_string(),
        fallback: if is_open { wording::fallback(request, is_whole) } else { String::new() },
    };
    Drawn { card, is_whole }
}

/// One part of the exact text.
struct Part {
    label: String,
    text: String,
    is_quote: bool,
}

impl Part {
    /// With its label and what stands around both.
    fn units(&self) -> usize {
        Unit::Utf16.len(&self.label) + Unit::Utf16.len(&self.text) + 4
    }

    fn cut(&mut self, limit: usize) {
        self.label = shorten_in(Unit::Utf16, &self.label, 60);
        if let Some(cut) = head_and_tail_in(Unit::Utf16, &self.text, limit) {
            let hidden = wording::count(cut.hidden_chars, "more character");
            self.text = format!("{}\n⟦… {hidden} …⟧\n{}", cut.head, cut.tail);
        }
    }

    fn into_block(self) -> Block {
        let Self { label, text, is_quote } = self;
        if is_quote { Block::Quote { label, text } } else { Block::Exact { label, text } }
    }
}

/// Parts that are shown of a text with many, from its beginning and its end.
const SHOWN_PARTS: usize = 8;

/// Cuts the parts so that they have at most `room` together: of many, those in
/// the middle are left out and counted; of long ones, their middle.
fn cut(parts: &mut Vec<Part>, room: usize) {
    if parts.len() > SHOWN_PARTS {
        let hidden = parts.len() - SHOWN_PARTS;
        let tail = parts.split_off(parts.len() - SHOWN_PARTS / 2);
        parts.truncate(SHOWN_PARTS / 2);
        let text = format!("⟦… {} …⟧", wording::count(hidden, "more field"));
        parts.push(Part { label: "…".to_owned(), text, is_quote: false });
        parts.extend(tail);
    }
    // Labels and the marks where something is left out take up to 110.
    let share = (room / parts.len().max(1)).saturating_sub(110).max(40);
    for part in parts {
        part.cut(share);
    }
}

/// Makes texts safe and remembers what it found.
#[derive(Default)]
struct Painter {
    spelt_out: usize,
    masked: usize,
    odd_hosts: Vec<String>,
}

impl Painter {
    fn exact(&mut self, text: &str) -> String {
        let safe = make_safe(text);
        self.note(safe)
    }

    /// The value of a member, whose name may say that it is a secret.
    fn member(&mut self, key: &str, text: &str) -> String {
        let (masked, count) = mask_member(key, text);
        self.masked += count;
        self.exact(&masked)
    }

    fn words(&mut self, text: &str) -> String {
        let safe = make_safe_words(text);
        on_one_line(&self.note(safe))
    }

    fn note(&mut self, safe: Safe) -> String {
        self.spelt_out += safe.spelt_out;
        self.masked += safe.masked;
        for host in safe.odd_hosts {
            if !self.odd_hosts.contains(&host) {
                self.odd_hosts.push(host);
            }
        }
        safe.text
    }

    fn warnings(&self, request: &Request, is_whole: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        if !is_whole {
            warnings.push(wording::NOT_WHOLE.to_owned());
        }
        if self.spelt_out > 0 {
            let count = wording::count(self.spelt_out, "character");
            warnings.push(format!("{count} that can't be seen, spelt out as ⟦U+…⟧."));
        }
        if self.masked > 0 {
            let count = wording::count(self.masked, "secret");
            warnings.push(format!("{count} masked; the agent has the real text."));
        }
        for host in &self.odd_hosts {
            warnings.push(format!("The host name {host} may be an imitation of another."));
        }
        if request.risk == Risk::High {
            warnings.push("High risk: only a button or the code can approve.".to_owned());
        }
        warnings
    }
}

fn title(request: &Request, painter: &mut Painter) -> String {
    let own = request.content.title.as_deref().map(|t| painter.words(t)).filter(|t| !t.is_empty());
    let tool = request.content.tool.as_ref().map(|t| painter.words(&t.name));
    match (request.content.kind, own, tool) {
        (Kind::ToolApproval | Kind::Question, Some(own), _) => own,
        (Kind::ToolApproval, None, Some(tool)) => format!("Run {tool}?"),
        (Kind::ToolApproval, None, None) => "Run this?".to_owned(),
        (Kind::Question, None, _) => "A question".to_owned(),
        (Kind::AccessRequest, own, _) => own.unwrap_or_else(|| "Let this person in?".to_owned()),
    }
}

/// The exact payload first, then the agent's words, marked as such.
fn exact_parts(request: &Request, painter: &mut Painter) -> Vec<Part> {
    let Content { tool, body, .. } = &request.content;
    let mut parts = Vec::new();
    match tool.as_ref().map(|t| &t.input) {
        Some(serde_json::Value::Object(members)) => {
            for (key, value) in members {
                let label = painter.words(key);
                let (kind, text) = readable(value);
                let label = kind.map_or(label.clone(), |kind| format!("{label} ({kind})"));
                parts.push(Part { label, text: painter.member(key, &text), is_quote: false });
            }
        }
        Some(serde_json::Value::Null) | None => {}
        Some(other) => {
            let (kind, text) = readable(other);
            let label = kind.map_or("input".to_owned(), |kind| format!("input ({kind})"));
            parts.push(Part { label, text: painter.exact(&text), is_quote: false });
        }
    }
    if let Some(body) = body.as_deref().filter(|b| !b.trim().is_empty()) {
        let safe = make_safe_words(body);
        let text = painter.note(safe).trim().to_owned();
        let label = format!("{} says (unverified)", request.agent_name);
        parts.push(Part { label, text, is_quote: true });
    }
    parts
}

/// A text is shown as it is; anything else as JSON, and says what it is, so that
/// the text `true` is not taken for the value.
fn readable(value: &serde_json::Value) -> (Option<&'static str>, String) {
    use serde_json::Value;
    let kind = match value {
        Value::String(text) if text.is_empty() => return (Some("empty"), String::new()),
        Value::String(text) => return (None, text.clone()),
        Value::Null => "null",
        Value::Bool(_) => "yes or no",
        Value::Number(_) => "number",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    (Some(kind), serde_json::to_string_pretty(value).unwrap_or_default())
}

fn facts(request: &Request, painter: &mut Painter) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |label: &str, value: String| {
        facts.push(Fact { label: label.to_owned(), value });
    };
    fact("Agent", request.agent_name.clone());
    if let Some(tool) = &request.content.tool {
        fact("Tool", painter.words(&tool.name));
    }
    if request.content.kind != Kind::Question {
        fact("Risk", request.risk.as_str().to_owned());
    }
    if let Some(session) = &request.session {
        fact("Session", shorten(&painter.words(session), 60));
    }
    if let Some(run) = &request.run {
        fact("Run", shorten(&painter.words(run), 60));
    }
    if request.asked > 1 {
        fact("Asked", format!("{} times", request.asked));
    }
    // Eight digits are enough to compare by eye; the API has the whole digest.
    let digest = request.digest.strip_prefix("sha256:").unwrap_or(&request.digest);
    fact("Digest", digest.chars().take(8).collect());
    facts
}

fn tone(status: Status) -> Tone {
    match status {
        Status::Pending => Tone::Open,
        Status::Approved | Status::Answered => Tone::Positive,
        Status::Denied => Tone::Negative,
        Status::Skipped | Status::Expired | Status::Cancelled => Tone::Neutral,
    }
}

fn actions(request: &Request, is_whole: bool, items: &[String]) -> Vec<Button> {
    use Emphasis::{Destructive, Primary, Secondary};
    let button = |action: Action, label: &str, emphasis| {
        let callback = Callback { request: request.id, action };
        let token = callback.to_string().parse().ok()?;
        let asks_for = (action == Action::RejectReason).then(|| "Why not?".to_owned());
        Some(Button { token, label: label.to_owned(), emphasis, asks_for, item: None })
    };
    let mut buttons = Vec::new();
    if !is_whole {
        buttons.push(button(Action::ShowAll, "Show all", Primary));
    }
    match request.content.kind {
        Kind::ToolApproval => {
            if is_whole {
                buttons.push(button(Action::ApproveOnce, "Approve once", Primary));
            }
            buttons.push(button(Action::Reject, "Deny", Destructive));
            buttons.push(button(Action::RejectReason, "Deny with reason", Secondary));
        }
        Kind::Question => {
            // Options that look the same once they are cut can't be told apart.
            let is_clear =
                items.iter().collect::<std::collections::HashSet<_>>().len() == items.len();
            for (index, item) in items.iter().enumerate().filter(|_| is_whole || is_clear) {
                let chosen = button(Action::Answer(index), item, Secondary);
                buttons.push(chosen.map(|button| Button { item: Some(index), ..button }));
            }
            buttons.push(button(Action::AnswerSkip, "Skip", Secondary));
        }
        Kind::AccessRequest => {
            if is_whole {
                buttons.push(button(Action::VerifyCode, "Verify by code", Primary));
                buttons.push(button(Action::Trust, "Trust", Secondary));
            }
            buttons.push(button(Action::LeaveUnverified, "Not now", Secondary));
            buttons.push(button(Action::Block, "Block", Destructive));
        }
    }
    buttons.into_iter().flatten().collect()
}

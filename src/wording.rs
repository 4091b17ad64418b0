//! Every sentence of ours that a person reads on a card or as a reply.

use crate::decisions::Ruling;
use crate::decisions::authority::Objection;
use crate::requests::status::Status;
use crate::requests::{Kind, Request};

/// On a card that leaves something out.
pub const NOT_WHOLE: &str =
    "This is not the whole text. Open it with Show all before you can approve it.";

/// To somebody who names what is not theirs or not there; the same words for
/// both, so that nothing can be learnt from them.
pub const NOT_FOUND: &str = "There is no open request with that code for you.";

/// To somebody who presses what is not theirs.
pub const NOT_PERMITTED: &str = "Only the person this request is for can answer it.";

/// To a press on something we don't know.
pub const UNKNOWN_BUTTON: &str = "This button belongs to nothing that still exists.";

/// To words when nothing waits.
pub const NOTHING_WAITS: &str = "Nothing waits for your answer. What needs your say-so comes here as \
     a card; answer it by a button, by replying to it, or by its code.";

/// To somebody who is not known, at most once a day.
pub const STRANGER: &str =
    "This is a private gateway. If you should be let in, ask whoever runs it for a pairing code.";

/// To a pairing code that can't be used, whatever the reason.
pub const NOT_PAIRED: &str =
    "This code can't be used. Ask whoever runs this gateway for a new one.";

/// To somebody whose account is theirs from now on.
pub fn paired(name: &str) -> String {
    format!("Welcome, {name}. What needs your say-so comes to this chat from now on.")
}

/// To somebody known who greets.
pub fn known(name: &str) -> String {
    format!("You are {name} here. What needs your say-so comes to this chat.")
}

/// What is wrong with a platform, for where somebody looks.
pub fn platform_trouble(channel: &str, trouble: &str) -> String {
    let mut name = channel.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!("{name}: {trouble}")
}

/// That a request waits, for the place that it came from, which others read.
pub fn waiting(request: &Request) -> String {
    format!("Waiting for {}, code {}.", request.guardian_name, request.code)
}

/// Why codes of somebody aren't read for a while.
pub const TOO_MANY_CODES: &str = "Too many codes that belong to nothing of yours. For half an hour \
     codes from you are not read; buttons and replies to cards work.";

/// How a request ended, for a place that others read.
pub fn bare(request: &Request) -> String {
    format!("{}: {}.", request.code, request.status.as_str())
}

/// How a request ended, for a place where its card is gone.
pub fn gone(request: &Request) -> String {
    format!("{} ({}): {}.", request.code, short_title(request), status(request))
}

/// A number and a noun: `1 secret`, `4,812 more characters`.
pub fn count(number: usize, noun: &str) -> String {
    let grouped = sayso_channel::text::grouped(number);
    if number == 1 { format!("{grouped} {noun}") } else { format!("{grouped} {noun}s") }
}

/// How a request stands: the status line of its card.
pub fn status(request: &Request) -> String {
    let Some(outcome) = &request.outcome else {
        return match request.content.kind {
            Kind::ToolApproval | Kind::AccessRequest => "Waiting for your decision".to_owned(),
            Kind::Question => "Waiting for your answer".to_owned(),
        };
    };
    let by = match (&outcome.decided_by_name, &outcome.channel) {
        (Some(name), Some(channel)) => format!(" by {name} via {channel}"),
        _ => String::new(),
    };
    let at = outcome.at.readable();
    let said = |text: &Option<String>| {
        let text = text.as_deref().map(|t| {
            let safe = crate::display::make_safe(t).text;
            crate::display::on_one_line(&safe)
        });
        text.filter(|t| !t.is_empty()).map_or(String::new(), |t| format!(": {t}"))
    };
    match request.status {
        Status::Pending => "Waiting".to_owned(),
        Status::Approved => format!("Approved{by}, {at}"),
        Status::Denied => format!("Denied{by}, {at}{}", said(&outcome.reason)),
        Status::Answered => format!("Answered{by}, {at}{}", said(&answer_words(request))),
        Status::Skipped => format!("Skipped{by}, {at}"),
        Status::Expired => format!("Expired, nobody decided in time, {at}"),
        Status::Cancelled if request.superseded_by.is_some() => {
            format!("Withdrawn, replaced by a newer request, {at}")
        }
        Status::Cancelled => format!("Withdrawn, {at}{}", said(&outcome.reason)),
    }
}

/// To somebody who asks for the whole text.
pub fn revealed(request: &Request, is_whole: bool) -> String {
    if is_whole {
        format!("The card of {} shows all of it.", request.code)
    } else {
        format!("The whole text of {} follows.", request.code)
    }
}

/// The answer in words: the label of the option, the text.
pub fn answer_words(request: &Request) -> Option<String> {
    let answer = request.outcome.as_ref()?.answer.as_ref()?;
    let label = answer.option.as_ref().and_then(|id| {
        request.content.options.iter().find(|o| o.id == *id).map(|o| o.label.clone())
    });
    match (label, &answer.text) {
        (Some(label), Some(text)) => Some(format!("{label} ({text})")),
        (Some(label), None) => Some(label),
        (None, text) => text.clone(),
    }
}

/// The words that ask for a text in reply to the card, if one means anything.
pub fn invitation(request: &Request) -> Option<String> {
    let content = &request.content;
    (content.kind == Kind::Question && content.allow_text).then(|| "Your answer".to_owned())
}

/// The exact words that answer a card where nothing can be pressed.
pub fn fallback(request: &Request, is_whole: bool) -> String {
    let code = request.code;
    match request.content.kind {
        Kind::AccessRequest if is_whole => sentence(&how(request)),
        Kind::ToolApproval if is_whole => {
            format!("Reply \"{code} approve\" or \"{code} deny\".")
        }
        Kind::ToolApproval | Kind::AccessRequest => {
            format!("Reply \"{code} show\" to see everything, or \"{code} deny\".")
        }
        Kind::Question if request.content.options.is_empty() => {
            format!("Reply \"{code}\" and your answer.")
        }
        Kind::Question => {
            format!("Reply \"{code}\" and the number of an option, or \"{code} skip\".")
        }
    }
}

/// What the person is told about an attempt of theirs.
pub fn ruling(ruling: &Ruling) -> String {
    match ruling {
        Ruling::Applied(request) => applied(request),
        Ruling::AlreadyDecided(request) if request.superseded_by.is_some() => {
            format!("{} was replaced by a newer request; nothing was decided.", request.code)
        }
        Ruling::AlreadyDecided(request) | Ruling::Expired(request) if request.status.is_final() => {
            format!("Too late for {}. {}.", request.code, status(request))
        }
        Ruling::AlreadyDecided(request) | Ruling::Expired(request) => {
            format!("Too late for {}. It expired at {}.", request.code, request.deadline.readable())
        }
        Ruling::NotPermitted => NOT_PERMITTED.to_owned(),
        Ruling::NotDecidable(request) => format!(
            "{} can't be decided: its guardian was removed. This is a fault of the set-up, not \
             yours; ask the operator.",
            request.code
        ),
        Ruling::WrongAction(request, objection) => objected(request, *objection),
        Ruling::NotFound => NOT_FOUND.to_owned(),
    }
}

fn applied(request: &Request) -> String {
    let what = short_title(request);
    let told = if request.callback_url.is_some() { ". The agent is being told." } else { "" };
    let answer = answer_words(request).map_or(String::new(), |words| {
        let safe = crate::display::make_safe(&words).text;
        format!(": {}", sayso_channel::text::shorten(&safe, 120))
    });
    match request.status {
        Status::Approved => format!("Approved: {what} ({}){told}", request.code),
        Status::Denied => format!("Denied: {what} ({}){told}", request.code),
        Status::Answered => format!("Answered {}{answer}{told}", request.code),
        Status::Skipped => format!("Skipped: {what} ({}){told}", request.code),
        Status::Pending | Status::Expired | Status::Cancelled => format!("{}.", status(request)),
    }
}

fn objected(request: &Request, objection: Objection) -> String {
    let code = request.code;
    match (objection, request.content.kind) {
        (Objection::NotOpened, _) => format!(
            "{code} was not shown whole. Open it with Show all, or reply \"{code} show\", then \
             approve."
        ),
        (Objection::TooRisky, _) => format!(
            "{code} is {} risk, so words alone don't approve it. Use the button, or reply \
             \"{code} approve\".",
            request.risk.as_str()
        ),
        (Objection::Changed, _) => {
            format!("{code} has changed since that card was shown; look at the new card.")
        }
        (
            Objection::NoSuchOption
            | Objection::OptionsOnly
            | Objection::EmptyAnswer
            | Objection::WrongKind,
            _,
        ) => clarify(request),
    }
}

/// To a no that wants to say why and doesn't.
pub fn ask_reason(request: &Request) -> String {
    format!("Why not? Send your reason, or \"{} deny\" to give none.", request.code)
}

/// To an answer that came for a request which was replaced since.
pub fn replaced(newest: &Request) -> String {
    format!("Nothing was decided: that request was replaced by a newer one. {}", clarify(newest))
}

/// Names a request and says how to answer it.
pub fn clarify(request: &Request) -> String {
    let what = match request.content.kind {
        Kind::ToolApproval | Kind::AccessRequest => "decision",
        Kind::Question => "answer",
    };
    let (code, title) = (request.code, short_title(request));
    format!("{code} waits for your {what} ({title}). {}", sentence(&how(request)))
}

fn how(request: &Request) -> String {
    let code = request.code;
    match request.content.kind {
        Kind::ToolApproval => format!("reply \"{code} approve\" or \"{code} deny\"."),
        Kind::AccessRequest => format!(
            "reply \"{code} trust\", \"{code} verify\", \"{code} park\" or \"{code} block\"."
        ),
        Kind::Question if request.content.options.is_empty() => {
            format!("reply \"{code}\" and your answer.")
        }
        Kind::Question => {
            let options = request.content.options.iter().enumerate();
            let list: Vec<String> = options
                .map(|(i, o)| {
                    let label = crate::display::make_safe_words(&o.label).text;
                    format!("{} {label}", i + 1)
                })
                .collect();
            format!("reply \"{code}\" and a number ({}).", list.join(", "))
        }
    }
}

/// The list that a person gets when their words could mean several requests.
pub fn disambiguate(candidates: &[Request]) -> String {
    let mut lines = vec![format!("{} are waiting; which one do you mean?", candidates.len())];
    for request in candidates.iter().take(10) {
        lines.push(format!("  {}: {}", request.code, short_title(request)));
    }
    if candidates.len() > 10 {
        lines.push(format!("  and {} more", candidates.len() - 10));
    }
    lines.push(String::new());
    let is_question = |r: &&Request| r.content.kind == Kind::Question;
    if let Some(question) = candidates.iter().find(is_question) {
        lines.push(format!("Reply \"{}\" and your answer.", question.code));
    }
    if let Some(access) = candidates.iter().find(|r| r.content.kind == Kind::AccessRequest) {
        lines.push(sentence(&how(access)));
    }
    if let Some(tool) = candidates.iter().find(|r| r.content.kind == Kind::ToolApproval) {
        lines.push(sentence(&how(tool)));
    }
    lines.join("\n")
}

/// To words that were not read as a decision while something waits.
pub fn hint(candidates: &[Request]) -> String {
    match candidates {
        [only] => format!("That was not taken as a decision. {}", clarify(only)),
        several => {
            let list = disambiguate(several);
            let list = list.split_once('\n').map_or(list.as_str(), |(_, rest)| rest);
            let count = several.len();
            format!("That was not taken as a decision; {count} requests are waiting:\n{list}")
        }
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// What a request is about, in at most 80 characters on one line.
pub fn short_title(request: &Request) -> String {
    let content = &request.content;
    let text = match (&content.title, &content.tool) {
        (Some(title), _) => title.clone(),
        (None, Some(tool)) => match excerpt(&tool.input) {
            Some(excerpt) => format!("{}: {excerpt}", tool.name),
            None => tool.name.clone(),
        },
        (None, None) => "a request".to_owned(),
    };
    let safe = crate::display::make_safe_words(&text).text;
    sayso_channel::text::shorten(&crate::display::on_one_line(&safe), 80)
}

/// The beginning of what a tool is called with: of a single text the text.
fn excerpt(input: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    let text = match input {
        Value::Object(members) => {
            let mut texts = members.iter().filter_map(|(key, v)| Some((key, v.as_str()?)));
            let first = members.get("command").and_then(Value::as_str).map(|text| ("", text));
            let (key, text) = first.or_else(|| texts.next().map(|(k, v)| (k.as_str(), v)))?;
            crate::display::mask_member(key, text).0
        }
        Value::String(text) => text.clone(),
        _ => return None,
    };
    Some(sayso_channel::text::shorten(&text, 200))
}

/// One line of a request's story, as a person reads it; nothing for what only
/// the audit needs.
pub fn trail(line: &crate::store::audit::Line) -> Option<String> {
    let actor = line.actor.as_deref().unwrap_or("somebody");
    let channel = line.channel.as_deref().unwrap_or("?");
    let detail = line.detail.as_deref().unwrap_or_default();
    let by = format!("by {actor} via {channel}");
    Some(match line.kind.as_str() {
        "request.created" => format!("Parked by {actor}"),
        "request.asked_again" => format!("Asked again by {actor}"),
        "request.undeliverable" => format!("Undeliverable: {detail}"),
        "delivery.sent" => format!("Delivered to {channel}"),
        "delivery.seen" => format!("Seen {by}"),
        "delivery.opened" => format!("Opened whole {by}"),
        "delivery.failed" => format!("Not delivered to {channel}: {detail}"),
        "delivery.gone" => format!("The card on {channel} is gone"),
        "delivery.settled" => format!("The card on {channel} shows it"),
        "request.approved" => format!("Approved {by} ({detail})"),
        "request.denied" => format!("Denied {by} ({detail})"),
        "request.answered" => format!("Answered {by} ({detail})"),
        "request.skipped" => format!("Skipped {by} ({detail})"),
        "request.expired" => "Expired: nobody decided in time".to_owned(),
        "request.cancelled" => format!("Withdrawn by {actor}: {detail}"),
        "decision.lost" => format!("Too late, already decided: {detail}, {by}"),
        "decision.late" => format!("After the deadline: {detail}, {by}"),
        "decision.refused" => format!("Refused: {detail}, {by}"),
        "agent.told" => "The agent was told".to_owned(),
        "agent.not_reached" => format!("The agent was not reached, will be tried again: {detail}"),
        "agent.given_up" => format!("The agent can't be told: {detail}"),
        _ => return None,
    })
}

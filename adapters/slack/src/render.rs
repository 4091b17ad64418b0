//! Card → message. Pure.
//!
//! What others wrote stands in rich text, which is shown as it is: nothing in it
//! can become a mention or a link. Only the text for notifications is markup, and
//! there it is escaped. Lengths are UTF-16 code units, the larger of the ways in
//! which Slack may count.

use sayso_channel::fit::{Passage, as_file, fewer_texts, passages, shorter_texts, symbol};
use sayso_channel::text::{Unit, shorten_in, split_in, utc};
use sayso_channel::{Action, Block, Card, Emphasis};
use slack_morphism::prelude::{
    SlackActionBlockElement, SlackActionsBlock, SlackBlock, SlackBlockButtonElement,
    SlackBlockButtonStyle, SlackBlockChoiceItem, SlackBlockPlainText, SlackBlockPlainTextOnly,
    SlackBlockStaticSelectElement, SlackContextBlock, SlackContextBlockElement, SlackHeaderBlock,
    SlackRichTextBlock, SlackRichTextElement, SlackRichTextInlineElement, SlackRichTextList,
    SlackRichTextListStyle, SlackRichTextPreformatted, SlackRichTextQuote, SlackRichTextSection,
    SlackRichTextStyle, SlackRichTextText,
};

use crate::markup::escape;
use crate::modal::{REPLY, row_id};

/// Units of one message: the platform refuses about 13,200 over all blocks, which
/// it doesn't document; a good part stays free.
pub(crate) const BUDGET: usize = 10_000;
/// Units of title, exact text and items that fit beside the rest of a card.
pub(crate) const EXACT_UNITS: usize = 6_000;
/// Units of words said in one message, before they are escaped: the platform
/// advises at most 4,000.
pub(crate) const SAID: usize = 3_000;
/// Units that the text of an edited message may have, escaped.
const TEXT: usize = 4_000;
/// Units of a header.
const HEADER: usize = 150;
/// Units of a button's label.
const LABEL: usize = 75;
/// Items up to so many are buttons, more are a list to choose from.
const BUTTONS: usize = 5;
/// Entries of a list to choose from, and units of one.
const CHOICES: usize = 100;
const CHOICE: usize = 60;
const TITLE: usize = 240;
const STATUS: usize = 600;
const WARNINGS: usize = 800;
const FACTS: usize = 600;
const FALLBACK: usize = 300;
/// Texts that are shown of a cut card with more, from its beginning and end.
const PARTS: usize = 8;
/// Messages in which a long text is posted; a longer one is posted as a file.
const PIECES: usize = 5;

/// A message as the platform takes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Message {
    /// What notifications show, and what is shown where there are no blocks.
    pub(crate) text: String,
    /// The blocks; none for words alone.
    pub(crate) blocks: Vec<SlackBlock>,
}

/// The whole text of a card that is too long for one message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Whole {
    /// As messages, in order.
    Messages(Vec<Message>),
    /// As a file.
    File(String),
}

/// Plain text of at most `limit` units; never empty, which is refused.
pub(crate) fn words_only(text: &str, limit: usize) -> SlackBlockPlainTextOnly {
    let text = shorten_in(Unit::Utf16, text, limit);
    let text = if text.trim().is_empty() { "…".to_owned() } else { text };
    // Without this `:name:` becomes a picture.
    SlackBlockPlainText::new(text).with_emoji(false).into()
}

/// The card on one message, if all of it fits: nothing is left out.
pub(crate) fn whole_card(card: &Card) -> Option<Message> {
    let (message, units) = compose(card, true);
    (units <= BUDGET).then_some(message)
}

/// The card on one message: of long texts the middle is left out and counted.
pub(crate) fn cut_card(card: &Card, budget: usize) -> Message {
    let fewer = fewer_texts(card, PARTS);
    let mut room = EXACT_UNITS.min(budget / 2);
    loop {
        let shorter = shorter_texts(&fewer, Unit::Utf16, room);
        let (message, units) = compose(&shorter, false);
        if units <= budget || room < 64 {
            return message;
        }
        room /= 2;
    }
}

/// The card in words alone, if all of it fits: for a platform that takes no form
/// of blocks.
pub(crate) fn whole_words(card: &Card, limit: usize) -> Option<Message> {
    let text = escape(&all_words(card));
    (Unit::Utf16.len(&text) <= limit).then_some(Message { text, blocks: Vec::new() })
}

/// The card in words alone, of long texts without their middle.
pub(crate) fn cut_words(card: &Card, limit: usize) -> Message {
    let mut room = limit;
    loop {
        room /= 2;
        let shorter = shorter_texts(&fewer_texts(card, PARTS), Unit::Utf16, room);
        let text = escape(&all_words(&clipped(&shorter)));
        if Unit::Utf16.len(&text) <= limit || room < 64 {
            return Message { text: shorten_in(Unit::Utf16, &text, limit), blocks: Vec::new() };
        }
    }
}

/// The same with short title, status and facts.
fn clipped(card: &Card) -> Card {
    Card {
        title: shorten_in(Unit::Utf16, &card.title, TITLE),
        status: shorten_in(Unit::Utf16, &card.status, STATUS),
        ..card.clone()
    }
}

/// Units that an edited message may have in words alone.
pub(crate) const EDITED_WORDS: usize = TEXT - 100;
/// Units that a message may have in words alone; more than the platform shows
/// without being asked.
pub(crate) const POSTED_WORDS: usize = 12_000;

fn all_words(card: &Card) -> String {
    let mut lines = vec![format!("{} {}", symbol(card.tone), card.title), card.status.clone()];
    for block in &card.blocks {
        match block {
            Block::Exact { label, text } | Block::Quote { label, text } => {
                lines.push(format!("{label}:\n{text}"));
            }
            Block::Items(items) => {
                lines
                    .extend(items.iter().enumerate().map(|(i, item)| format!("{}. {item}", i + 1)));
            }
            Block::Warning(text) => lines.push(format!("⚠️ {text}")),
            Block::Facts(_) => lines.push(facts(card)),
        }
    }
    lines.push(format!("Code {}", card.reference));
    if !card.fallback.is_empty() {
        lines.push(card.fallback.clone());
    }
    lines.join("\n")
}

/// The texts of the card that are to be read in full.
pub(crate) fn texts(card: &Card) -> Whole {
    let passages = passages(card, Unit::Utf16, TITLE);
    let messages: Vec<Message> = passages.iter().flat_map(pieces).collect();
    if messages.len() <= PIECES {
        Whole::Messages(messages)
    } else {
        Whole::File(as_file(&passages))
    }
}

/// One text with its label, in as many messages as it takes.
fn pieces(passage: &Passage) -> Vec<Message> {
    let pieces = split_in(Unit::Utf16, &passage.text, BUDGET / 2);
    let count = pieces.len();
    let message = |(index, piece): (usize, &String)| {
        let label = match count {
            1 => passage.label.clone(),
            _ => format!("{} ({} of {count})", passage.label, index + 1),
        };
        let mut pen = Pen::default();
        pen.part(&label, piece, passage.is_exact);
        Message { text: escape(&label), blocks: vec![pen.into_block()] }
    };
    pieces.iter().enumerate().map(message).collect()
}

/// The message, and the units on it.
fn compose(card: &Card, is_whole: bool) -> (Message, usize) {
    // A card that is shown whole is shown whole.
    let clip = |text: &str, limit: usize| {
        if is_whole { text.to_owned() } else { shorten_in(Unit::Utf16, text, limit) }
    };
    let title = clip(&card.title, TITLE);
    let mut blocks = Vec::new();
    let mut pen = Pen::default();
    if Unit::Utf16.len(&title) <= HEADER {
        pen.units += Unit::Utf16.len(&title);
        blocks.push(SlackHeaderBlock::new(words_only(&title, HEADER)).into());
    } else {
        pen.section(vec![bold(&title)]);
    }
    pen.section(vec![plain(&format!("{} {}", symbol(card.tone), clip(&card.status, STATUS)))]);
    let mut warnings = WARNINGS;
    for block in &card.blocks {
        match block {
            Block::Exact { label, text } => pen.part(label, text, true),
            Block::Quote { label, text } => pen.part(label, text, false),
            Block::Items(items) => pen.items(items),
            Block::Warning(text) => {
                let text = clip(text, warnings);
                warnings -= Unit::Utf16.len(&text).min(warnings);
                pen.section(vec![plain(&format!("⚠️ {text}"))]);
            }
            // They stand below, small.
            Block::Facts(_) => {}
        }
    }
    let mut last = vec![plain("Code "), code(&card.reference)];
    if !card.fallback.is_empty() {
        last.push(plain(&format!("\n{}", clip(&card.fallback, FALLBACK))));
    }
    pen.section(last);
    let mut units = pen.units;
    blocks.push(pen.into_block());
    let facts = facts(card);
    if !facts.is_empty() {
        let facts = shorten_in(Unit::Utf16, &facts, FACTS);
        units += Unit::Utf16.len(&facts);
        let element = SlackBlockPlainText::new(facts).with_emoji(false);
        let element = SlackContextBlockElement::Plain(element);
        blocks.push(SlackContextBlock::new(vec![element]).into());
    }
    let (row, more) = buttons(card);
    units += more;
    blocks.extend(row);
    (Message { text: notification(card), blocks }, units)
}

fn facts(card: &Card) -> String {
    let mut facts: Vec<String> = Vec::new();
    for block in &card.blocks {
        if let Block::Facts(all) = block {
            facts.extend(all.iter().map(|fact| format!("{} {}", fact.label, fact.value)));
        }
    }
    if let Some(at) = card.expires_at {
        facts.push(format!("Expires {}", utc(at)));
    }
    facts.join(" · ")
}

/// What a phone shows while it is locked: what it is, how it stands, how to answer.
fn notification(card: &Card) -> String {
    let title = shorten_in(Unit::Utf16, &card.title, TITLE);
    let status = shorten_in(Unit::Utf16, &card.status, 120);
    let mut text = format!("{} {title} · {status} · Code {}", symbol(card.tone), card.reference);
    if !card.fallback.is_empty() {
        text = format!("{text} · {}", shorten_in(Unit::Utf16, &card.fallback, 200));
    }
    // Escaped it is at most five times as long, which an edit takes as well.
    escape(&text)
}

/// What can be pressed, and the units on it.
fn buttons(card: &Card) -> (Vec<SlackBlock>, usize) {
    let (items, others): (Vec<&Action>, Vec<&Action>) =
        card.actions.iter().partition(|action| action.item.is_some());
    let mut elements: Vec<SlackActionBlockElement> = Vec::new();
    let mut asking: Vec<(&str, &str)> = Vec::new();
    let mut units = 0;
    if items.len() > BUTTONS {
        let choices: Vec<_> = items.iter().take(CHOICES).map(|action| choice(action)).collect();
        units += choices.len() * CHOICE;
        let list = SlackBlockStaticSelectElement::new()
            .with_action_id("choose".into())
            .with_placeholder(words_only("Choose an answer", LABEL))
            .with_options(choices);
        elements.push(list.into());
    } else {
        elements.extend(items.iter().map(|action| button(action)));
    }
    for action in &others {
        elements.push(button(action));
        if let Some(words) = &action.asks_for {
            asking.push((action.token.as_str(), words));
        }
    }
    if let Some(words) = card.invites_reply.as_deref().filter(|_| !card.actions.is_empty()) {
        let label = words_only("Answer in words", LABEL);
        let reply = SlackBlockButtonElement::new(label).with_action_id(REPLY.into());
        elements.push(reply.with_value(REPLY.to_owned()).into());
        asking.push((REPLY, words));
    }
    units += elements.len() * LABEL;
    if elements.is_empty() {
        return (Vec::new(), 0);
    }
    let row = SlackActionsBlock::new(elements).with_block_id(row_id(&asking).into());
    (vec![row.into()], units)
}

fn label(action: &Action, limit: usize) -> SlackBlockPlainTextOnly {
    match action.item {
        Some(index) => words_only(&format!("{}. {}", index + 1, action.label), limit),
        None => words_only(&action.label, limit),
    }
}

fn choice(action: &Action) -> SlackBlockChoiceItem<SlackBlockPlainTextOnly> {
    SlackBlockChoiceItem::new(label(action, CHOICE), action.token.to_string())
}

fn button(action: &Action) -> SlackActionBlockElement {
    let token = action.token.to_string();
    let button = SlackBlockButtonElement::new(label(action, LABEL))
        .with_action_id(token.clone().into())
        .with_value(token);
    let styled = match action.emphasis {
        Emphasis::Primary => button.with_style(SlackBlockButtonStyle::Primary),
        Emphasis::Destructive => button.with_style(SlackBlockButtonStyle::Danger),
        Emphasis::Secondary => button,
    };
    styled.into()
}

fn plain(text: &str) -> SlackRichTextInlineElement {
    SlackRichTextInlineElement::Text(SlackRichTextText::new(text.to_owned()))
}

fn bold(text: &str) -> SlackRichTextInlineElement {
    let style = SlackRichTextStyle::new().with_bold(true);
    SlackRichTextText::new(text.to_owned()).with_style(style).into()
}

fn code(text: &str) -> SlackRichTextInlineElement {
    let style = SlackRichTextStyle::new().with_code(true);
    SlackRichTextText::new(text.to_owned()).with_style(style).into()
}

/// Writes rich text and counts it.
#[derive(Default)]
struct Pen {
    elements: Vec<SlackRichTextElement>,
    units: usize,
}

impl Pen {
    fn count(&mut self, runs: &[SlackRichTextInlineElement]) {
        for run in runs {
            if let SlackRichTextInlineElement::Text(text) = run {
                self.units += Unit::Utf16.len(&text.text);
            }
        }
    }

    fn section(&mut self, runs: Vec<SlackRichTextInlineElement>) {
        self.count(&runs);
        self.elements.push(SlackRichTextSection::new(runs).into());
    }

    fn part(&mut self, label: &str, text: &str, is_exact: bool) {
        // A run without a character is refused.
        if !label.is_empty() {
            self.section(vec![bold(label)]);
        }
        let text = text.trim_end_matches('\n');
        if text.is_empty() {
            return;
        }
        let runs = vec![plain(text)];
        self.count(&runs);
        self.elements.push(if is_exact {
            SlackRichTextPreformatted::new(runs).into()
        } else {
            SlackRichTextQuote::new(runs).into()
        });
    }

    fn items(&mut self, items: &[String]) {
        let filled = |item: &String| if item.is_empty() { "…".to_owned() } else { item.clone() };
        let items: Vec<String> = items.iter().map(filled).collect();
        self.units += items.iter().map(|item| Unit::Utf16.len(item)).sum::<usize>();
        let items = items.into_iter().map(Into::into).collect();
        self.elements.push(SlackRichTextList::new(SlackRichTextListStyle::Ordered, items).into());
    }

    fn into_block(self) -> SlackBlock {
        SlackRichTextBlock::new(self.elements).into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;
    use sayso_channel::{Fact, Tone};
    use serde_json::Value;

    use super::*;

    fn action(token: &str, label: &str, emphasis: Emphasis) -> Action {
        let (token, label) = (token.parse().unwrap(), label.to_owned());
        Action { token, label, emphasis, asks_for: None, item: None }
    }

    fn card(blocks: Vec<Block>) -> Card {
        let why = Action {
            asks_for: Some("Why not?".to_owned()),
            ..action("apr:x:reject_reason", "Deny with reason", Emphasis::Secondary)
        };
        Card {
            title: "Run shell?".to_owned(),
            status: "Waiting for your decision".to_owned(),
            tone: Tone::Open,
            blocks,
            actions: vec![
                action("apr:x:approve_once", "Approve once", Emphasis::Primary),
                action("apr:x:reject", "Deny", Emphasis::Destructive),
                why,
            ],
            invites_reply: None,
            expires_at: Some(UNIX_EPOCH + Duration::from_hours(490_147)),
            reference: "A1B2C3".to_owned(),
            fallback: "Reply \"A1B2C3 approve\" or \"A1B2C3 deny\".".to_owned(),
        }
    }

    fn exact(text: &str) -> Block {
        Block::Exact { label: "command".to_owned(), text: text.to_owned() }
    }

    fn json(message: &Message) -> Value {
        serde_json::to_value(&message.blocks).unwrap()
    }

    /// Every text of the blocks, and every one that is shown in a fixed-width font.
    fn strings(value: &Value, in_pre: bool, all: &mut Vec<String>, pre: &mut Vec<String>) {
        let in_pre = in_pre || value["type"] == "rich_text_preformatted";
        match value {
            Value::String(text) => all.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| strings(item, in_pre, all, pre)),
            Value::Object(members) => {
                for (name, member) in members {
                    if name == "text"
                        && let Value::String(text) = member
                    {
                        all.push(text.clone());
                        if in_pre {
                            pre.push(text.clone());
                        }
                    } else if !matches!(member, Value::String(_)) {
                        strings(member, in_pre, all, pre);
                    }
                }
            }
            _ => {}
        }
    }

    fn units(text: &str) -> usize {
        text.encode_utf16().count()
    }

    /// What the platform refuses, by its documentation.
    fn check(message: &Message) {
        assert!(units(&message.text) <= TEXT, "{}", units(&message.text));
        assert!(!message.text.contains(['<', '>']) && !message.text.trim().is_empty());
        let blocks = json(message);
        let blocks = blocks.as_array().unwrap();
        assert!(blocks.len() <= 50);
        let (mut all, mut pre) = (Vec::new(), Vec::new());
        strings(&Value::Array(blocks.clone()), false, &mut all, &mut pre);
        let total: usize = all.iter().map(|text| units(text)).sum();
        assert!(total <= 13_000, "{total}");
        let mut ids = Vec::new();
        for block in blocks {
            match block["type"].as_str().unwrap() {
                "header" => {
                    let title = block["text"]["text"].as_str().unwrap();
                    assert!((1..=150).contains(&units(title)));
                }
                "context" => {
                    for element in block["elements"].as_array().unwrap() {
                        assert!((1..=2_000).contains(&units(element["text"].as_str().unwrap())));
                    }
                }
                "actions" => {
                    assert!(units(block["block_id"].as_str().unwrap()) <= 255);
                    let elements = block["elements"].as_array().unwrap();
                    assert!((1..=25).contains(&elements.len()));
                    for element in elements {
                        let id = element["action_id"].as_str().unwrap();
                        assert!(id.len() <= 255 && !ids.contains(&id.to_owned()));
                        ids.push(id.to_owned());
                        if element["type"] == "button" {
                            assert!(
                                (1..=75)
                                    .contains(&units(element["text"]["text"].as_str().unwrap()))
                            );
                            assert!(element["value"].as_str().unwrap().len() <= 2_000);
                            continue;
                        }
                        let options = element["options"].as_array().unwrap();
                        assert!((1..=100).contains(&options.len()));
                        for option in options {
                            assert!(
                                (1..=75).contains(&units(option["text"]["text"].as_str().unwrap()))
                            );
                            assert!(option["value"].as_str().unwrap().len() <= 150);
                        }
                    }
                }
                "rich_text" => {
                    assert!(!block["elements"].as_array().unwrap().is_empty());
                    let (mut texts, mut pre) = (Vec::new(), Vec::new());
                    strings(block, false, &mut texts, &mut pre);
                    assert!(texts.iter().all(|text| !text.is_empty()), "{block}");
                }
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn the_exact_text_stands_as_it_is_and_nothing_in_it_is_markup() {
        let text = "<!channel> <@U0BOB0002> <https://evil.example|Approve here> a < b && *c* `d`";
        let message = whole_card(&card(vec![exact(text)])).unwrap();
        check(&message);
        let (mut all, mut pre) = (Vec::new(), Vec::new());
        strings(&json(&message), false, &mut all, &mut pre);
        assert_eq!(pre, [text]);
        assert!(json(&message).to_string().find("mrkdwn").is_none());
    }

    #[test]
    fn a_button_that_asks_for_words_says_so_in_its_row() {
        let message = whole_card(&card(vec![exact("ls")])).unwrap();
        let row = json(&message).as_array().unwrap().last().unwrap().clone();
        assert_eq!(row["block_id"], "row\nreject_reason\tWhy not?");
        let labels: Vec<&str> = row["elements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|button| button["text"]["text"].as_str().unwrap())
            .collect();
        assert_eq!(labels, ["Approve once", "Deny", "Deny with reason"]);
        assert_eq!(row["elements"][0]["style"], "primary");
        assert_eq!(row["elements"][1]["style"], "danger");
    }

    #[test]
    fn a_text_that_is_too_long_is_given_whole_in_messages_or_in_a_file() {
        let text = "word ".repeat(4_000);
        let long = card(vec![exact(&text)]);
        assert!(whole_card(&long).is_none());
        let Whole::Messages(messages) = texts(&long) else { panic!() };
        let mut whole = String::new();
        for message in &messages {
            check(message);
            let (mut all, mut pre) = (Vec::new(), Vec::new());
            strings(&json(message), false, &mut all, &mut pre);
            whole.push_str(&pre.concat());
        }
        assert_eq!(whole, text);
        let Whole::File(file) = texts(&card(vec![exact(&text.repeat(4))])) else { panic!() };
        assert!(file.contains(&text.repeat(4)));
    }

    fn any_block() -> impl Strategy<Value = Block> {
        let text = || "[ -~äяé漢🎉\\n&<>]{0,200}";
        let long = (text(), 1_usize..60).prop_map(|(text, times)| text.repeat(times));
        prop_oneof![
            ("\\PC{0,80}", long).prop_map(|(label, text)| Block::Exact { label, text }),
            ("\\PC{0,40}", text()).prop_map(|(label, text)| Block::Quote { label, text }),
            proptest::collection::vec("\\PC{0,300}", 1..30).prop_map(Block::Items),
            "\\PC{0,300}".prop_map(Block::Warning),
            proptest::collection::vec(("\\PC{0,20}", "\\PC{0,200}"), 0..8).prop_map(|facts| {
                let fact = |(label, value)| Fact { label, value };
                Block::Facts(facts.into_iter().map(fact).collect())
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn no_message_is_outside_the_limits(
            title in "\\PC{1,400}", status in "\\PC{1,900}", choices in 0_usize..120,
            label in "\\PC{0,200}", blocks in proptest::collection::vec(any_block(), 0..60),
            invites in any::<bool>(),
        ) {
            let mut wild = card(blocks);
            (wild.title, wild.status) = (title, status);
            wild.invites_reply = invites.then(|| label.clone());
            for index in 0..choices {
                let token = format!("apr:x:answer_{index}");
                let chosen = action(&token, &label, Emphasis::Secondary);
                wild.actions.push(Action { item: Some(index), ..chosen });
            }
            if let Some(whole) = whole_card(&wild) {
                check(&whole);
            }
            for budget in [BUDGET, BUDGET / 4] {
                check(&cut_card(&wild, budget));
            }
            for limit in [EDITED_WORDS, POSTED_WORDS] {
                prop_assert!(units(&cut_words(&wild, limit).text) <= limit);
                if let Some(whole) = whole_words(&wild, limit) {
                    prop_assert!(units(&whole.text) <= limit && !whole.text.contains(['<', '>']));
                }
            }
        }

        #[test]
        fn what_fits_by_the_promised_capacity_is_shown_whole(text in "[ -~äя漢🎉&<>]{1,200}", times in 1_usize..80) {
            let long = text.repeat(times);
            prop_assume!(units(&long) <= EXACT_UNITS - 20 && !long.ends_with('\n'));
            let message = whole_card(&card(vec![exact(&long)]));
            prop_assert!(message.is_some());
            let (mut all, mut pre) = (Vec::new(), Vec::new());
            strings(&json(&message.unwrap()), false, &mut all, &mut pre);
            prop_assert_eq!(pre.concat(), long);
        }
    }
}

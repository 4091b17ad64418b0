//! Card → message. Pure.
//!
//! Plain text with explicit entities: nothing in it can be taken for markup,
//! whoever wrote it. Lengths and offsets are UTF-16 code units, as the platform
//! counts them.

use sayso_channel::fit::{Passage, as_file, fewer_texts, passages, symbol};
use sayso_channel::text::{Unit, grouped, head_and_tail_in, shorten_in, split_in, utc};
use sayso_channel::{Block, Card, Emphasis};
use teloxide::types::{
    InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity, MessageEntityKind as Kind,
};

/// Units of one message: the platform takes 4,096; sources disagree about what
/// it counts, so a little stays free.
pub(crate) const BUDGET: usize = 4_000;
/// Units of title, exact text and items that fit beside the rest of a card.
pub(crate) const EXACT_UNITS: usize = 2_400;
/// Units of a button's label that a phone shows on one line.
const LABEL_UNITS: usize = 40;
/// Labels up to this length stand two in a row.
const SHORT_LABEL: usize = 16;
const TITLE: usize = 240;
const STATUS: usize = 300;
const WARNINGS: usize = 400;
const FACTS: usize = 300;
const FALLBACK: usize = 200;
/// Texts that are shown of a cut card with more, from its beginning and end.
const PARTS: usize = 6;
/// Messages in which a long text is posted; a longer one is posted as a file.
const PIECES: usize = 5;

/// A message as the platform takes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// The text.
    pub(crate) text: String,
    /// How parts of it look.
    pub(crate) entities: Vec<MessageEntity>,
    /// The buttons, by row.
    pub(crate) keyboard: Vec<Vec<InlineKeyboardButton>>,
}

impl Message {
    /// The buttons as the platform takes them; nothing without any.
    pub(crate) fn markup(&self) -> Option<InlineKeyboardMarkup> {
        (!self.keyboard.is_empty()).then(|| InlineKeyboardMarkup::new(self.keyboard.clone()))
    }

    pub(crate) fn units(&self) -> usize {
        Unit::Utf16.len(&self.text)
    }
}

/// The whole text of a card that is too long for one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whole {
    /// As messages, in order.
    Messages(Vec<Message>),
    /// As a file.
    File(String),
}

/// The card on one message, if all of it fits: nothing is left out.
pub(crate) fn whole_card(card: &Card) -> Option<Message> {
    let message = compose(card, None);
    (message.units() <= BUDGET).then_some(message)
}

/// The card on one message of at most `budget` units: of long texts the middle
/// is left out and counted.
pub(crate) fn cut_card(card: &Card, budget: usize) -> Message {
    let card = &fewer_texts(card, PARTS);
    let mut share = EXACT_UNITS.min(budget);
    loop {
        let message = compose(card, Some(Room { share, budget }));
        if message.units() <= budget || share < 16 {
            return clamp(message, budget);
        }
        share /= 2;
    }
}

/// What a card that is cut may take.
#[derive(Clone, Copy)]
struct Room {
    /// Units of texts and items together.
    share: usize,
    /// Units of the whole message.
    budget: usize,
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
    let kind = if passage.is_exact { Kind::Pre { language: None } } else { Kind::Blockquote };
    let pieces = split_in(Unit::Utf16, &passage.text, BUDGET - TITLE - 40);
    let count = pieces.len();
    let message = |(index, piece): (usize, &String)| {
        let mut pen = Pen::default();
        pen.styled(Kind::Bold, &passage.label);
        if count > 1 {
            pen.plain(&format!(" ({} of {count})", index + 1));
        }
        pen.plain("\n");
        pen.styled(kind.clone(), piece.trim_end_matches('\n'));
        pen.message
    };
    pieces.iter().enumerate().map(message).collect()
}

fn compose(card: &Card, room: Option<Room>) -> Message {
    // A card that is shown whole is shown whole.
    let clip = |text: &str, limit: usize| match room {
        Some(room) => shorten_in(Unit::Utf16, text, limit * room.budget / BUDGET),
        None => text.to_owned(),
    };
    let mut pen = Pen::default();
    pen.plain(symbol(card.tone));
    pen.plain(" ");
    pen.styled(Kind::Bold, &clip(&card.title, TITLE));
    pen.line(&clip(&card.status, STATUS));
    let shares = card.blocks.iter().filter(|b| !matches!(b, Block::Warning(_) | Block::Facts(_)));
    let each = room.map(|room| room.share / shares.count().max(1));
    let mut warnings = WARNINGS;
    for block in &card.blocks {
        match block {
            Block::Exact { label, text } => {
                pen.part(label, text, &Kind::Pre { language: None }, each);
            }
            Block::Quote { label, text } => pen.part(label, text, &Kind::Blockquote, each),
            Block::Items(items) => pen.items(items, each),
            Block::Warning(text) => {
                let text = clip(text, warnings);
                warnings -= Unit::Utf16.len(&text).min(warnings);
                if !text.is_empty() {
                    pen.gap();
                    pen.plain(&format!("⚠️ {text}"));
                }
            }
            Block::Facts(facts) => {
                let facts: Vec<String> =
                    facts.iter().map(|f| format!("{} {}", f.label, f.value)).collect();
                pen.gap();
                pen.plain(&clip(&facts.join(" · "), FACTS));
            }
        }
    }
    if let Some(at) = card.expires_at {
        pen.line(&format!("Expires {}", utc(at)));
    }
    pen.line("Code ");
    pen.styled(Kind::Code, &card.reference);
    if !card.fallback.is_empty() {
        pen.line(&clip(&card.fallback, FALLBACK));
    }
    let mut message = pen.message;
    message.keyboard = keyboard(card);
    message
}

fn keyboard(card: &Card) -> Vec<Vec<InlineKeyboardButton>> {
    let mut rows: Vec<Vec<InlineKeyboardButton>> = Vec::new();
    let mut is_pairable = false;
    for action in &card.actions {
        let label = match action.item {
            Some(index) => format!("{}. {}", index + 1, action.label),
            None if action.emphasis == Emphasis::Destructive => format!("✖ {}", action.label),
            None => action.label.clone(),
        };
        let label = shorten_in(Unit::Utf16, &label, LABEL_UNITS);
        let is_short = action.item.is_none() && Unit::Utf16.len(&label) <= SHORT_LABEL;
        let button = InlineKeyboardButton::callback(label, action.token.as_str());
        match rows.last_mut() {
            Some(row) if is_pairable && is_short && row.len() == 1 => row.push(button),
            _ => rows.push(vec![button]),
        }
        is_pairable = is_short;
    }
    rows
}

/// A last resort against a text that is too long in spite of everything: its
/// end is left out.
fn clamp(mut message: Message, budget: usize) -> Message {
    if message.units() > budget {
        message.text = shorten_in(Unit::Utf16, &message.text, budget);
        let units = message.units();
        message.entities.retain_mut(|entity| {
            entity.length = entity.length.min(units.saturating_sub(entity.offset));
            entity.length > 0
        });
    }
    message
}

/// Writes text and remembers how it looks.
#[derive(Default)]
struct Pen {
    message: Message,
    units: usize,
}

impl Pen {
    fn plain(&mut self, text: &str) {
        self.units += Unit::Utf16.len(text);
        self.message.text.push_str(text);
    }

    fn styled(&mut self, kind: Kind, text: &str) {
        let (offset, length) = (self.units, Unit::Utf16.len(text));
        self.plain(text);
        if length > 0 {
            self.message.entities.push(MessageEntity::new(kind, offset, length));
        }
    }

    fn line(&mut self, text: &str) {
        self.plain("\n");
        self.plain(text);
    }

    /// An empty line before what follows.
    fn gap(&mut self) {
        self.plain("\n\n");
    }

    fn part(&mut self, label: &str, text: &str, kind: &Kind, share: Option<usize>) {
        self.gap();
        self.plain(&share.map_or(label.to_owned(), |_| shorten_in(Unit::Utf16, label, 30)));
        self.plain("\n");
        let cut = share.and_then(|units| head_and_tail_in(Unit::Utf16, text, units));
        match cut {
            None => self.styled(kind.clone(), text.trim_end_matches('\n')),
            Some(cut) => {
                self.styled(kind.clone(), cut.head.trim_end_matches('\n'));
                let hidden = grouped(cut.hidden_chars);
                self.plain(&format!("\n⟦… {hidden} more characters …⟧\n"));
                self.styled(kind.clone(), cut.tail.trim_matches('\n'));
            }
        }
    }

    fn items(&mut self, items: &[String], share: Option<usize>) {
        self.plain("\n");
        let each = share.map(|units| (units / items.len().max(1)).max(8));
        for (index, item) in items.iter().enumerate() {
            let item = each.map_or(item.clone(), |units| shorten_in(Unit::Utf16, item, units));
            self.line(&format!("{}. {item}", index + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;
    use sayso_channel::{Action, Fact, Tone};

    use super::*;

    fn card(exact: &str) -> Card {
        Card {
            title: "Run shell?".to_owned(),
            status: "Waiting for your decision".to_owned(),
            tone: Tone::Open,
            blocks: vec![
                Block::Exact { label: "command".to_owned(), text: exact.to_owned() },
                Block::Facts(vec![Fact { label: "Agent".to_owned(), value: "robot".to_owned() }]),
            ],
            actions: vec![
                action("apr:1:approve_once", "Approve once", Emphasis::Primary),
                action("apr:1:reject", "Deny", Emphasis::Destructive),
                action("apr:1:reject_reason", "Deny with reason", Emphasis::Secondary),
            ],
            invites_reply: None,
            expires_at: Some(UNIX_EPOCH + Duration::from_mins(29_934_615)),
            reference: "K7M2Q9".to_owned(),
            fallback: "Reply \"K7M2Q9 approve\" or \"K7M2Q9 deny\".".to_owned(),
        }
    }

    fn action(token: &str, label: &str, emphasis: Emphasis) -> Action {
        let token = token.parse().unwrap();
        Action { token, label: label.to_owned(), emphasis, asks_for: None, item: None }
    }

    /// The part of the text that an entity covers.
    fn covered(message: &Message, entity: &MessageEntity) -> String {
        let units: Vec<u16> = message.text.encode_utf16().collect();
        String::from_utf16(&units[entity.offset..entity.offset + entity.length]).unwrap()
    }

    #[test]
    fn a_card_reads_from_top_to_bottom_and_its_code_block_is_the_exact_text() {
        let message = whole_card(&card("gh issue create -b \"see `x_y` [z](q) *!\" # 🎩")).unwrap();
        assert_eq!(
            message.text,
            "⏳ Run shell?\nWaiting for your decision\n\ncommand\n\
             gh issue create -b \"see `x_y` [z](q) *!\" # 🎩\n\nAgent robot\n\
             Expires 2026-11-30 22:15:00 UTC\nCode K7M2Q9\n\
             Reply \"K7M2Q9 approve\" or \"K7M2Q9 deny\"."
        );
        let exact = message.entities.iter().find(|e| matches!(e.kind, Kind::Pre { .. })).unwrap();
        assert_eq!(covered(&message, exact), "gh issue create -b \"see `x_y` [z](q) *!\" # 🎩");
        let rows: Vec<Vec<&str>> =
            message.keyboard.iter().map(|r| r.iter().map(|b| b.text.as_str()).collect()).collect();
        assert_eq!(rows, [vec!["Approve once", "✖ Deny"], vec!["Deny with reason"]]);
    }

    #[test]
    fn long_options_stand_numbered_in_the_text_and_short_on_the_buttons() {
        let options: Vec<String> = (0..4).map(|i| format!("{i}{}", "long ".repeat(28))).collect();
        let mut card = card("");
        card.blocks = vec![Block::Items(options.clone())];
        let answer = |(index, option): (usize, &String)| Action {
            item: Some(index),
            ..action("apr:1:answer_0", option, Emphasis::Secondary)
        };
        card.actions = options.iter().enumerate().map(answer).collect();
        let message = whole_card(&card).unwrap();
        for (i, option) in options.iter().enumerate() {
            assert!(message.text.contains(&format!("{}. {option}", i + 1)));
            let label = &message.keyboard[i][0].text;
            assert!(label.starts_with(&format!("{}. {i}long", i + 1)), "{label}");
            assert!(Unit::Utf16.len(label) <= LABEL_UNITS);
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_given_whole_in_messages_or_in_a_file() {
        let text = "abcdefg \n".repeat(1_000);
        assert_eq!(whole_card(&card(&text)), None);
        let Whole::Messages(messages) = texts(&card(&text)) else { panic!("messages") };
        let shown: Vec<String> = messages
            .iter()
            .map(|m| {
                let body = m.entities.iter().find(|e| matches!(e.kind, Kind::Pre { .. })).unwrap();
                covered(m, body) + "\n"
            })
            .collect();
        assert_eq!(shown.concat(), text);
        let Whole::File(file) = texts(&card(&"x".repeat(100_000))) else { panic!("a file") };
        assert!(file.contains(&"x".repeat(100_000)));
    }

    proptest! {
        #[test]
        fn no_message_is_too_long_and_no_entity_leaves_its_text(
            exact in "\\PC{0,400}", quote in "[a-z🎩👨‍👩‍👧‍👦\\n]{0,400}", times in 1_usize..40,
            items in proptest::collection::vec("\\PC{1,300}", 0..25), title in "\\PC{0,300}",
            status in "\\PC{0,900}", budget in 2_000_usize..4_000,
        ) {
            let mut card = card(&exact.repeat(times));
            card.title = title;
            card.status = status;
            card.blocks.push(Block::Quote { label: "robot says".to_owned(), text: quote.repeat(times) });
            card.blocks.push(Block::Warning("w".repeat(900)));
            card.blocks.push(Block::Items(items));
            let field = |i| Block::Exact { label: format!("field {i}"), text: exact.clone() };
            card.blocks.extend((0..times).map(field));
            let mut messages = vec![cut_card(&card, budget)];
            prop_assert!(messages[0].units() <= budget);
            let end = "Code K7M2Q9\nReply \"K7M2Q9 approve\" or \"K7M2Q9 deny\".";
            prop_assert!(messages[0].text.ends_with(end), "code and words are never cut");
            messages.extend(whole_card(&card));
            if let Whole::Messages(more) = texts(&card) {
                messages.extend(more);
            }
            for message in &messages {
                prop_assert!(message.units() <= BUDGET);
                for entity in &message.entities {
                    prop_assert!(entity.offset + entity.length <= message.units());
                    covered(message, entity);
                }
            }
        }

        #[test]
        fn what_fits_by_the_promised_capacity_is_shown_whole(exact in "\\PC{0,2400}") {
            let exact = shorten_in(Unit::Utf16, &exact, EXACT_UNITS);
            let mut card = card(&exact);
            card.status = "s".repeat(120);
            card.blocks.extend((0..4).map(|_| Block::Warning("w".repeat(100))));
            let facts = (0..8).map(|_| Fact { label: "Agent".to_owned(), value: "v".repeat(60) });
            card.blocks.push(Block::Facts(facts.collect()));
            prop_assert!(whole_card(&card).is_some());
        }
    }
}

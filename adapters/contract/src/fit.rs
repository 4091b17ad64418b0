//! Making a card fit: which of its texts are read in full elsewhere, and what is
//! left of one that has too many.

use crate::card::{Block, Card, Tone};
use crate::text::{Unit, head_and_tail_in, shorten_in};

/// A text of a card that is to be read in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// What it is.
    pub label: String,
    /// The text.
    pub text: String,
    /// Whether it must be shown exactly, in a fixed-width font.
    pub is_exact: bool,
}

/// The texts of a card that are to be read in full, in reading order. A label of
/// more than `label_limit` units is a text itself, and so is such a title.
pub fn passages(card: &Card, unit: Unit, label_limit: usize) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut add = |label: &str, text: &str, is_exact: bool| {
        if unit.len(label) <= label_limit {
            let (label, text) = (label.to_owned(), text.to_owned());
            passages.push(Passage { label, text, is_exact });
            return;
        }
        for (name, text) in [("field", label), ("value of that field", text)] {
            passages.push(Passage { label: name.to_owned(), text: text.to_owned(), is_exact });
        }
    };
    if unit.len(&card.title) > label_limit {
        add("title", &card.title, false);
    }
    for block in &card.blocks {
        match block {
            Block::Exact { label, text } => add(label, text, true),
            Block::Quote { label, text } => add(label, text, false),
            Block::Items(items) => {
                let lines = items.iter().enumerate();
                let lines: Vec<String> =
                    lines.map(|(i, item)| format!("{}. {item}", i + 1)).collect();
                add("options", &lines.join("\n"), false);
            }
            Block::Warning(_) | Block::Facts(_) => {}
        }
    }
    passages
}

/// The passages as the text of a file.
pub fn as_file(passages: &[Passage]) -> String {
    let parts = passages.iter().map(|passage| format!("{}:\n{}\n", passage.label, passage.text));
    parts.collect::<Vec<_>>().join("\n")
}

fn is_text(block: &Block) -> bool {
    matches!(block, Block::Exact { .. } | Block::Quote { .. })
}

/// The card without the middle ones of more than `limit` texts; how many are
/// left out stands in their place.
pub fn fewer_texts(card: &Card, limit: usize) -> Card {
    let count = card.blocks.iter().filter(|block| is_text(block)).count();
    if count <= limit {
        return card.clone();
    }
    let hidden = limit / 2..count - limit / 2;
    let (mut blocks, mut number) = (Vec::new(), 0);
    for block in &card.blocks {
        if is_text(block) {
            if number == hidden.start {
                let text = format!("⟦… {} more fields …⟧", hidden.len());
                blocks.push(Block::Exact { label: "…".to_owned(), text });
            }
            number += 1;
            if hidden.contains(&(number - 1)) {
                continue;
            }
        }
        blocks.push(block.clone());
    }
    Card { blocks, ..card.clone() }
}

/// The card with at most `room` units of texts and items together: of a longer
/// one the middle is left out and counted.
pub fn shorter_texts(card: &Card, unit: Unit, room: usize) -> Card {
    let takes_room = |block: &&Block| is_text(block) || matches!(block, Block::Items(_));
    let share = room / card.blocks.iter().filter(takes_room).count().max(1);
    let cut = |text: &str| match head_and_tail_in(unit, text, share) {
        None => text.to_owned(),
        Some(cut) => {
            let hidden = crate::text::grouped(cut.hidden_chars);
            format!("{}\n⟦… {hidden} more characters …⟧\n{}", cut.head, cut.tail)
        }
    };
    let label = |label: &str| shorten_in(unit, label, 40);
    let shorter = |block: &Block| match block {
        Block::Exact { label: name, text } => Block::Exact { label: label(name), text: cut(text) },
        Block::Quote { label: name, text } => Block::Quote { label: label(name), text: cut(text) },
        Block::Items(items) => {
            let each = (share / items.len().max(1)).max(8);
            Block::Items(items.iter().map(|item| shorten_in(unit, item, each)).collect())
        }
        Block::Warning(_) | Block::Facts(_) => block.clone(),
    };
    Card { blocks: card.blocks.iter().map(shorter).collect(), ..card.clone() }
}

/// A symbol that goes with how a card stands.
pub fn symbol(tone: Tone) -> &'static str {
    match tone {
        Tone::Open => "⏳",
        Tone::Positive => "✅",
        Tone::Negative => "❌",
        Tone::Neutral => "⚪",
    }
}

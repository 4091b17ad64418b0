//! Which characters can't be seen, by Unicode property.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Whether `c` shows nothing or changes how its neighbours are shown: controls,
/// formatting (bidirectional, zero-width, tags), default-ignorables, separators
/// other than the space, private, unassigned, and the blank Braille pattern.
/// Line feeds are not hidden.
pub fn is_hidden(c: char) -> bool {
    if c == '\n' || c == ' ' || c.is_ascii_graphic() {
        return false;
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::SpaceSeparator
    ) || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
        || c == '\u{2800}'
}

/// Whether `c` is a mark that is drawn onto the character before it.
pub fn is_mark(c: char) -> bool {
    !c.is_ascii()
        && matches!(
            CodePointMapData::<GeneralCategory>::new().get(c),
            GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_see_is_hidden() {
        for c in [
            '\0',
            '\t',
            '\r',
            '\x1b',
            '\u{7f}',
            '\u{a0}',
            '\u{ad}',
            '\u{200b}',
            '\u{200e}',
            '\u{202e}',
            '\u{2066}',
            '\u{2028}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{e0041}',
            '\u{e000}',
            '\u{1d173}',
            '\u{115f}',
            '\u{34f}',
        ] {
            assert!(is_hidden(c), "U+{:04X}", c as u32);
        }
        for c in ['a', ' ', '\n', 'é', 'я', '中', '👍', '—', '№', '⟦'] {
            assert!(!is_hidden(c), "{c}");
        }
    }
}

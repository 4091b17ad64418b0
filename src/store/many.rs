//! Statements about several rows: of few different lengths, so that there are few
//! of them to keep prepared.

/// Values of one statement at most.
pub(super) const AT_ONCE: usize = 64;

/// The values as texts, the last of them repeated until there are a power of two.
pub(super) fn padded<T: ToString>(values: &[T]) -> Vec<String> {
    let mut texts: Vec<String> = values.iter().map(T::to_string).collect();
    if let Some(last) = texts.last().cloned() {
        texts.resize(texts.len().next_power_of_two(), last);
    }
    texts
}

/// Places for so many values: `$2, $3, …`.
pub(super) fn places(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|place| format!("${place}")).collect();
    places.join(", ")
}

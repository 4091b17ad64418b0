//! Reading text: pure, total, deterministic, the same for every surface.

pub mod pick;
pub mod words;
pub mod yes_no;

pub use pick::pick;
pub use yes_no::{Lean, Reading, read};

//! Tokens of a budget: those of OpenAI's `cl100k_base`, whichever the encoder.

use std::panic::AssertUnwindSafe;

use super::LinguaError;

/// Tokens of a text; a special token's text counts as plain text.
pub(super) fn count(text: &str) -> Result<usize, LinguaError> {
    // The library panics where its regex engine gives a text up (a million spaces in a row, say). It holds no state
    // that a panic could leave half done.
    let counted = std::panic::catch_unwind(AssertUnwindSafe(|| {
        tiktoken_rs::cl100k_base_singleton().count_ordinary(text)
    }));
    counted.map_err(|_| LinguaError::Count { bytes: text.len() })
}

/// `target / tokens`, at most 1.
pub(super) fn rate(target: usize, tokens: usize) -> f64 {
    (target as f64 / tokens as f64).min(1.0)
}

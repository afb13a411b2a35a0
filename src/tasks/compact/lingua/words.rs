//! Tokens of a window merged to words, each with its probability of being kept.

use super::Vocabulary;

/// The words of one window.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WindowWords {
    /// Each as the vocabulary spells its parts, a forced token's stand-in already replaced by the token.
    pub(super) words: Vec<Word>,
    /// Tokens that the encoder read.
    pub(super) tokens: usize,
}

/// One word.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Word {
    pub(super) text: String,
    /// The mean of its tokens, a forced one counting as 1.
    pub(super) probability: f32,
    /// Whether it is a forced token and nothing else, whose probability of 1 the reference holds in double precision.
    pub(super) is_forced_alone: bool,
    /// What contexts are chosen by: its first token's, forced or not. The reference means to take the mean of its
    /// tokens, and adds up the first one's as often as there are tokens.
    pub(super) unforced: f32,
}

/// A word that still takes tokens up.
struct Growing {
    text: String,
    sum: f32,
    first: f32,
    first_sum: f32,
    tokens: usize,
    is_forced: bool,
}

impl Growing {
    fn finish(self) -> Word {
        let tokens = self.tokens as f32;
        Word {
            text: self.text,
            probability: self.sum / tokens,
            is_forced_alone: self.is_forced && self.tokens == 1,
            unforced: self.first_sum / tokens,
        }
    }
}

/// Merges tokens, given by their spelling, to words; special tokens are no part of any.
pub(super) fn merge(vocabulary: &Vocabulary, tokens: &[(String, f32)]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut growing: Option<Growing> = None;
    for (token, probability) in tokens {
        if vocabulary.is_special(token) {
            continue;
        }
        let pure = vocabulary.pure(token);
        match &mut growing {
            Some(word) if !vocabulary.begins_word(token) => {
                word.text.push_str(pure);
                word.sum += probability;
                word.first_sum += word.first;
                word.tokens += 1;
            }
            _ => {
                let is_forced = vocabulary.is_forced(pure);
                let next = Growing {
                    text: vocabulary.with_forced_tokens(token),
                    sum: if is_forced { 1.0 } else { *probability },
                    first: *probability,
                    first_sum: *probability,
                    tokens: 1,
                    is_forced,
                };
                words.extend(growing.replace(next).map(Growing::finish));
            }
        }
    }
    words.extend(growing.map(Growing::finish));
    words
}

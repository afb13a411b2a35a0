//! LLMLingua-2: an encoder says of each word whether to keep it.
//!
//! [`LlmLingua2`] is the loaded encoder, [`Compression`] one history's way through it, window by window. Every message
//! is a context of its own, `[role]: content`. Contexts are chosen first, by the mean of their words' probabilities,
//! within twice the budget; then words within the budget, window by window.
//!
//! # Source
//! Pan et al. 2024, LLMLingua-2 (arXiv 2403.12968), as version 0.2.2 of its reference implementation has it in
//! `compress_prompt` with its defaults and with the settings of the Lost in Compaction paper: a target of 500 tokens,
//! forced tokens newline and `?`. Windows of 512 tokens end at a full stop or a newline where they can, and are
//! tokenised anew from their text. A literal padding token in a text is left out.

mod budget;
mod compression;
mod error;
mod percentile;
mod vocabulary;
mod words;

#[cfg(test)]
mod tests;

pub use compression::{Compression, CompressionStep};
pub use error::LinguaError;

use std::num::NonZeroUsize;
use std::path::Path;

use self::vocabulary::Vocabulary;
use self::words::WindowWords;
use crate::engine::{EngineError, TextEncoder};
use crate::tokenizer::SpecialTokens;

/// Tokens of a window, the two around it included.
const WINDOW_TOKENS: usize = 512;

/// The label whose probability is that of keeping a token.
const KEEP: usize = 1;

/// An encoder that was trained for LLMLingua-2.
pub struct LlmLingua2 {
    encoder: TextEncoder,
    vocabulary: Vocabulary,
    first_id: u32,
    last_id: u32,
}

impl LlmLingua2 {
    /// Loads the token classifier at `path`. `progress(done, total)` counts bytes on disk.
    ///
    /// # Errors
    /// [`LinguaError`]: files that cannot be loaded, or an encoder that is not one for LLMLingua-2.
    pub fn load(
        path: &Path,
        threads: Option<NonZeroUsize>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, LinguaError> {
        let added = vocabulary::stand_ins();
        let encoder = TextEncoder::load(path, threads, &added, progress)?;
        let (config, tokenizer) = (encoder.encoder.config(), &encoder.tokenizer);
        let labels = encoder.encoder.num_labels();
        if labels.is_none_or(|labels| labels <= KEEP) {
            return Err(LinguaError::NotAClassifier { path: path.to_owned(), labels });
        }
        let limit = config.context_length();
        if limit < WINDOW_TOKENS {
            return Err(LinguaError::ShortContext { path: path.to_owned(), window: WINDOW_TOKENS, limit });
        }
        let last_id = tokenizer.vocab_size().saturating_sub(1) as u32;
        if last_id as usize >= config.vocab_size {
            return Err(LinguaError::NoRows { path: path.to_owned(), last_id, rows: config.vocab_size });
        }
        let vocabulary = Vocabulary::new(config.family, tokenizer).map_err(EngineError::from)?;
        let id = |token: &str| {
            let missing = || LinguaError::NoToken { path: path.to_owned(), token: token.to_owned() };
            tokenizer.token_id(token).ok_or_else(missing)
        };
        let (first, last) = vocabulary.around();
        Ok(Self { first_id: id(first)?, last_id: id(last)?, vocabulary, encoder })
    }

    /// Parts a text into windows and gives the text of each.
    fn windows(&self, text: &str) -> Result<Vec<String>, LinguaError> {
        let tokenizer = &self.encoder.tokenizer;
        let text = self.vocabulary.with_stand_ins(text);
        let tokens = tokenizer.encode_tokens(&text, SpecialTokens::Parse).map_err(EngineError::from)?;
        let mut windows = Vec::new();
        let mut start = 0;
        while start < tokens.len() {
            let mut last = tokens.len() - 1;
            if start + (WINDOW_TOKENS - 2) <= last {
                let full = start + (WINDOW_TOKENS - 2);
                let ends = (start + 1..=full).rev().find(|&at| self.vocabulary.ends_window(&tokens[at]));
                last = ends.unwrap_or(full);
            }
            let window = tokens[start..=last].to_vec();
            windows.push(tokenizer.join_tokens(window).map_err(EngineError::from)?);
            start = last + 1;
        }
        Ok(windows)
    }

    /// The words of windows, all in one pass of the encoder.
    fn words(&self, windows: &[&str]) -> Result<Vec<WindowWords>, LinguaError> {
        let tokenizer = &self.encoder.tokenizer;
        let padding = self.encoder.encoder.config().pad_token_id;
        let mut sequences = Vec::with_capacity(windows.len());
        for window in windows {
            let inner = tokenizer.encode(window, SpecialTokens::Parse).map_err(EngineError::from)?;
            let whole = std::iter::once(self.first_id).chain(inner).chain([self.last_id]);
            // A window that became longer by being tokenised anew loses its end, the last special token first.
            let ids: Vec<u32> = whole.take(WINDOW_TOKENS).filter(|&id| id != padding).collect();
            sequences.push(ids);
        }
        let batch: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
        let probabilities = self.probabilities(&batch).map_err(EngineError::from)?;
        let mut probabilities = probabilities.into_iter();
        let merge = |ids: &Vec<u32>| {
            let spelled = |&id: &u32| tokenizer.token_text(id).unwrap_or_default();
            let tokens: Vec<(String, f32)> =
                ids.iter().map(spelled).zip(probabilities.by_ref().take(ids.len())).collect();
            WindowWords { words: words::merge(&self.vocabulary, &tokens), tokens: ids.len() }
        };
        Ok(sequences.iter().map(merge).collect())
    }

    /// The probability of keeping each token of packed sequences.
    fn probabilities(&self, batch: &[&[u32]]) -> Result<Vec<f32>, crate::model::ModelError> {
        let hidden = self.encoder.encoder.forward(batch)?;
        // Loading made sure of the classifier.
        let Some(logits) = self.encoder.encoder.classify(&hidden)? else { return Ok(Vec::new()) };
        let softmax = |row: Vec<f32>| {
            let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let powers: Vec<f32> = row.iter().map(|logit| (logit - greatest).exp()).collect();
            powers[KEEP] / powers.iter().sum::<f32>()
        };
        Ok(logits.to_vec2::<f32>()?.into_iter().map(softmax).collect())
    }
}

//! [`Compression`]: one list of contexts, step by step.

use std::sync::Arc;

use super::percentile::percentile;
use super::words::{WindowWords, Word};
use super::{LinguaError, LlmLingua2, budget};
use crate::engine::EngineError;

/// Windows of one pass of the encoder: enough to fill its matrix products. Results do not depend on it.
const BATCH_WINDOWS: usize = 4;

/// Contexts are chosen within so many budgets; words then within one.
const CONTEXT_BUDGETS: usize = 2;

/// One list of contexts on its way through the encoder.
pub struct Compression {
    model: Arc<LlmLingua2>,
    target: usize,
    contexts: Vec<Context>,
    /// Of all contexts, as they came.
    tokens: usize,
    /// Windows that the encoder has read.
    done: usize,
    /// Tokens that the encoder has read.
    encoded_tokens: usize,
}

struct Context {
    windows: Vec<String>,
    /// Those of the first windows, as far as they are computed.
    words: Vec<WindowWords>,
}

/// What one step brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompressionStep {
    /// Windows read so far, and all there are.
    Working {
        /// Read.
        done: usize,
        /// All.
        total: usize,
    },
    /// The contexts that are left, compressed, with an empty line between them.
    Done(String),
}

impl Compression {
    /// Parts `contexts` into windows, to be compressed to about `target` tokens.
    ///
    /// # Errors
    /// [`LinguaError`] where a text cannot be tokenised or counted.
    pub fn new(model: Arc<LlmLingua2>, contexts: &[String], target: usize) -> Result<Self, LinguaError> {
        let mut tokens = 0;
        let mut parted = Vec::with_capacity(contexts.len());
        for text in contexts {
            tokens += budget::count(text)?;
            parted.push(Context { windows: model.windows(text)?, words: Vec::new() });
        }
        Ok(Self { model, target, contexts: parted, tokens, done: 0, encoded_tokens: 0 })
    }

    /// Tokens that the encoder has read.
    pub fn encoded_tokens(&self) -> usize {
        self.encoded_tokens
    }

    /// Has the encoder read a few windows more, or puts the result together once it has read what it must.
    ///
    /// # Errors
    /// [`LinguaError`] where the encoder fails or a text cannot be counted.
    pub fn step(&mut self) -> Result<CompressionStep, LinguaError> {
        let total: usize = self.contexts.iter().map(|context| context.windows.len()).sum();
        if self.done == total || !self.needs_encoder()? {
            return Ok(CompressionStep::Done(self.finish()?));
        }
        let waiting = self.contexts.iter().enumerate().flat_map(|(index, context)| {
            context.windows[context.words.len()..].iter().map(move |window| (index, window.as_str()))
        });
        let (owners, windows): (Vec<usize>, Vec<&str>) = waiting.take(BATCH_WINDOWS).unzip();
        let words = self.model.words(&windows)?;
        for (owner, words) in owners.into_iter().zip(words) {
            self.encoded_tokens += words.tokens;
            self.contexts[owner].words.push(words);
            self.done += 1;
        }
        Ok(CompressionStep::Working { done: self.done, total })
    }

    /// Whether anything will be left out at all.
    fn needs_encoder(&self) -> Result<bool, LinguaError> {
        if self.contexts.len() > 1 && self.context_rate() < 1.0 {
            return Ok(true);
        }
        Ok(self.word_rate(&(0..self.contexts.len()).collect::<Vec<_>>())? < 1.0)
    }

    /// The share of contexts to keep.
    fn context_rate(&self) -> f64 {
        budget::rate(CONTEXT_BUDGETS * self.target, self.tokens)
    }

    /// The share of tokens to keep of the chosen contexts.
    fn word_rate(&self, chosen: &[usize]) -> Result<f64, LinguaError> {
        if self.contexts.len() == 1 {
            return Ok(budget::rate(self.target, self.tokens));
        }
        // The reference counts windows as they are then: decoded, and with stand-ins for forced tokens.
        let mut tokens = 0;
        for window in chosen.iter().flat_map(|&index| &self.contexts[index].windows) {
            tokens += budget::count(window)?;
        }
        Ok(budget::rate(self.target, tokens))
    }

    fn finish(&self) -> Result<String, LinguaError> {
        let chosen = self.choose_contexts();
        let reduce = 1.0 - self.word_rate(&chosen)?;
        let mut compressed = Vec::with_capacity(chosen.len());
        for &index in &chosen {
            let context = &self.contexts[index];
            let mut text = String::new();
            if reduce <= 0.0 {
                let windows = context.windows.iter();
                windows.for_each(|window| text.push_str(&self.model.vocabulary.with_forced_tokens(window)));
            } else {
                for words in &context.words {
                    text.push_str(&self.compress(&words.words, reduce)?);
                }
            }
            compressed.push(text);
        }
        Ok(compressed.join("\n\n"))
    }

    /// The contexts whose words have the greatest mean probability.
    fn choose_contexts(&self) -> Vec<usize> {
        let all = 0..self.contexts.len();
        if self.contexts.len() <= 1 || self.context_rate() >= 1.0 {
            return all.collect();
        }
        let means: Vec<f64> = self.contexts.iter().map(|context| f64::from(context.mean())).collect();
        let percent = (100.0 * (1.0 - self.context_rate())) as usize;
        let threshold = percentile(&means, false, percent).unwrap_or(0.0);
        all.filter(|&index| means[index] >= threshold).collect()
    }

    /// A window's words above the threshold, as text.
    fn compress(&self, words: &[Word], reduce: f64) -> Result<String, LinguaError> {
        let mut by_token = Vec::new();
        let mut is_wide = false;
        for word in words {
            let tokens = budget::count(&word.text)?;
            is_wide |= word.is_forced_alone && tokens > 0;
            by_token.extend(std::iter::repeat_n(f64::from(word.probability), tokens));
        }
        let percent = (100.0 * reduce + 1.0) as usize;
        let Some(threshold) = percentile(&by_token, is_wide, percent) else { return Ok(String::new()) };
        let is_kept = |word: &&Word| {
            let probability = f64::from(word.probability);
            probability > threshold || (threshold == 1.0 && probability == threshold)
        };
        let kept = words.iter().filter(is_kept).map(|word| word.text.clone()).collect();
        Ok(self.model.encoder.tokenizer.join_tokens(kept).map_err(EngineError::from)?)
    }
}

impl Context {
    /// The mean probability of its words, in the reference's precision; 0 where it has none.
    fn mean(&self) -> f32 {
        let words = self.words.iter().flat_map(|window| &window.words);
        let (sum, count) =
            words.fold((0.0_f32, 0_usize), |(sum, count), word| (sum + word.unforced, count + 1));
        if count == 0 { 0.0 } else { sum / count as f32 }
    }
}

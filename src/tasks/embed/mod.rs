//! Embedding: a text in, a vector of length one out.
//!
//! Two kinds of model do it: encoders (BERT and its like), several texts in one pass, and decoders such as
//! Qwen3-Embedding, whose last token's hidden state comes through the engine. How hidden states are pooled, the files
//! beside the model say; where they do not, the caller must, unless the model is a decoder.

mod decoder;
mod encoder;
mod error;
mod pooling;
#[cfg(test)]
mod tests;

pub use error::EmbedError;
pub use pooling::Pooling;

use std::path::Path;

use self::pooling::Published;
use crate::engine::{Engine, EngineOptions, TextEncoder};
use crate::model::QuantizationReport;
use crate::model::encoder::EncoderConfig;
use crate::weights::Weights;

/// How an [`Embedder`] is used; what is absent is as the model's files have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmbedSettings {
    /// How hidden states are pooled.
    pub pooling: Option<Pooling>,
    /// Most tokens of a text, special ones included; what is longer is cut.
    pub max_tokens: Option<usize>,
}

/// What became of one text.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Embedding {
    /// Tokens that were embedded, special ones included.
    pub tokens: usize,
    /// Whether the text was longer.
    pub is_cut: bool,
    /// The vector, of Euclidean length one.
    pub embedding: Vec<f32>,
}

/// A model that embeds texts.
pub struct Embedder {
    model: Model,
    pooling: Pooling,
    max_tokens: usize,
}

enum Model {
    Encoder(Box<TextEncoder>),
    Decoder { engine: Box<Engine>, end: Option<u32> },
}

impl Embedder {
    /// Loads the model at `path`. `progress(done, total)` counts bytes on disk.
    ///
    /// # Errors
    /// [`EmbedError`]: what is wrong with the files or the settings; an encoder that does not say how it pools.
    pub fn load(
        path: &Path,
        options: EngineOptions,
        settings: EmbedSettings,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, EmbedError> {
        let weights = Weights::open(path).map_err(|error| EmbedError::Engine(error.into()))?;
        let published = match path.is_dir() {
            true => Published::read(path)?,
            false => Published::default(),
        };
        let pooling = settings.pooling.or(published.pooling);
        let (model, pooling, around, context) = if EncoderConfig::is_encoder(&weights) {
            if let Some(format) = options.quantization {
                return Err(EmbedError::QuantizedEncoder { path: path.to_owned(), format });
            }
            let pooling = pooling.ok_or_else(|| EmbedError::NoPooling { path: path.to_owned() })?;
            let model = TextEncoder::load(path, options.threads, &[], progress)?;
            let (around, context) =
                (model.tokenizer.tokens_around(), model.encoder.config().context_length());
            (Model::Encoder(Box::new(model)), pooling, around, context)
        } else {
            let pooling = pooling.unwrap_or(Pooling::Last);
            if pooling != Pooling::Last {
                return Err(EmbedError::DecoderPooling { pooling });
            }
            let engine = Engine::load(path, options, progress)?;
            let end = decoder::end_token(&weights, &engine)?;
            let around = engine.tokenizer()?.tokens_around() + usize::from(end.is_some());
            let context = engine.context_length();
            (Model::Decoder { engine: Box::new(engine), end }, pooling, around, context)
        };
        let asked = settings.max_tokens.or(published.max_tokens);
        let max_tokens = asked.unwrap_or(context).min(context);
        if asked.is_some_and(|asked| settings.max_tokens.is_some() && asked > context) || max_tokens <= around
        {
            let found = asked.unwrap_or(context);
            return Err(EmbedError::MaxTokens { found, least: around + 1, limit: context });
        }
        Ok(Self { model, pooling, max_tokens })
    }

    /// What was quantised at load; `None` where nothing was asked for.
    pub fn quantization(&self) -> Option<&QuantizationReport> {
        match &self.model {
            Model::Encoder(_) => None,
            Model::Decoder { engine, .. } => engine.quantization(),
        }
    }

    /// Embeds texts; `on_done` gets each with its number, in order, as soon as it is there.
    ///
    /// # Errors
    /// [`EmbedError::Empty`] for a text without a token, whatever the model refuses, and what `on_done` returns.
    pub fn embed(
        &mut self,
        texts: &[String],
        on_done: &mut dyn FnMut(usize, Embedding) -> Result<(), EmbedError>,
    ) -> Result<(), EmbedError> {
        match &mut self.model {
            Model::Encoder(model) => encoder::embed(model, self.pooling, self.max_tokens, texts, on_done),
            Model::Decoder { engine, end } => decoder::embed(engine, *end, self.max_tokens, texts, on_done),
        }
    }
}

/// The vector divided by its Euclidean length, which is summed in f64. A zero vector stays one.
fn normalised(vector: &[f32]) -> Vec<f32> {
    let squares: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let length = squares.sqrt().max(1e-12);
    vector.iter().map(|&x| (f64::from(x) / length) as f32).collect()
}

//! [`Encoder`]: BERT and XLM-RoBERTa, whose tokens see the whole sequence, and the token classifier on top.
//!
//! # Source
//! Devlin et al. 2018, BERT; Conneau et al. 2019, XLM-R. Names and details as in HF transformers' `modeling_bert` and
//! `modeling_xlm_roberta`.

mod config;
mod layer;
mod loader;

pub use config::{EncoderConfig, EncoderFamily};

use candle_core::Tensor;

use self::layer::{EncoderLayer, PackedSequences};
use self::loader::{EncoderLoader, LayerNorm};
use super::ModelError;
use super::layers::Linear;
use crate::ops::{self, Backend, OpError, PackedMatrix};
use crate::weights::{Weights, WeightsError};

/// A bidirectional encoder.
pub struct Encoder {
    backend: Backend,
    config: EncoderConfig,
    words: PackedMatrix,
    positions: PackedMatrix,
    token_types: PackedMatrix,
    norm: LayerNorm,
    layers: Vec<EncoderLayer>,
    /// The token classifier and its number of labels.
    classifier: Option<(Linear, usize)>,
}

impl Encoder {
    /// Loads the encoder that `weights` hold. `progress(loaded, total)` counts bytes on disk.
    ///
    /// # Errors
    /// [`ModelError`] for what is no encoder, a config that cannot work, or a missing or misshapen tensor.
    pub fn load(
        weights: &Weights,
        backend: &Backend,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, ModelError> {
        let config = EncoderConfig::from_weights(weights)?;
        let mut loader = EncoderLoader::new(backend, &config, weights, progress)?;
        let hidden = config.hidden_size;
        let words = loader.matrix("embeddings.word_embeddings.weight", [config.vocab_size, hidden])?;
        let positions =
            loader.matrix("embeddings.position_embeddings.weight", [config.max_positions, hidden])?;
        let token_types =
            loader.matrix("embeddings.token_type_embeddings.weight", [config.type_vocab_size, hidden])?;
        let norm = loader.layer_norm("embeddings.LayerNorm")?;
        let layers = (0..config.num_layers)
            .map(|layer| EncoderLayer::load(&mut loader, layer))
            .collect::<Result<_, _>>()?;
        let classifier = match config.classifies_tokens {
            true => Some(loader.classifier()?.ok_or_else(|| WeightsError::MissingTensor {
                file: weights.path().to_owned(),
                tensor: "classifier.weight".to_owned(),
            })?),
            false => None,
        };
        let backend = backend.clone();
        Ok(Self { backend, config, words, positions, token_types, norm, layers, classifier })
    }

    /// Shapes and settings.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Bytes of packed weights.
    pub fn weight_bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(EncoderLayer::packed_bytes).sum();
        let head = self.classifier.as_ref().map_or(0, |(linear, _)| linear.packed_bytes());
        let tables = [&self.words, &self.positions, &self.token_types];
        tables.iter().map(|table| table.packed_bytes()).sum::<usize>() + layers + head
    }

    /// The last hidden states of packed sequences, each of which sees itself alone.
    ///
    /// # Shapes
    /// Returns `[tokens of all sequences, hidden_size]`, in order.
    ///
    /// # Errors
    /// [`ModelError::Op`] for an empty sequence, one longer than [`EncoderConfig::context_length`], or a token past
    /// the vocabulary.
    pub fn forward(&self, sequences: &[&[u32]]) -> Result<Tensor, ModelError> {
        let limit = self.config.context_length();
        if let Some(sequence) = sequences.iter().find(|ids| ids.is_empty() || ids.len() > limit) {
            let (expected, found) = (format!("1 to {limit} tokens"), format!("{} tokens", sequence.len()));
            return Err(OpError::Value { argument: "sequence", expected, found }.into());
        }
        let first = self.config.first_position as u32;
        let ids = sequences.concat();
        let positions: Vec<u32> =
            sequences.iter().flat_map(|sequence| first..first + sequence.len() as u32).collect();
        let backend = &self.backend;
        let x = ops::embedding(backend, &self.words, &ids)?;
        let types = ops::embedding(backend, &self.token_types, &vec![0; ids.len()])?;
        // In the order of transformers' sums, which keeps the rounding the same.
        let x = ops::add(backend, &x, &types)?;
        let x = ops::add(backend, &x, &ops::embedding(backend, &self.positions, &positions)?)?;
        let mut x = self.norm.forward(backend, &x)?;
        let (heads, dim) = (self.config.num_heads, self.config.head_dim());
        let mut packed = PackedSequences::new(backend, sequences.iter().map(|ids| ids.len()), heads, dim)?;
        for layer in &self.layers {
            x = layer.forward(backend, &x, &mut packed)?;
        }
        Ok(x)
    }

    /// Labels of the token classifier; `None` where the model has none.
    pub fn num_labels(&self) -> Option<usize> {
        self.classifier.as_ref().map(|(_, labels)| *labels)
    }

    /// Logits of the token classifier for hidden states: `[rows, hidden_size]` to `[rows, labels]`. `None` where the
    /// model has no classifier.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shape does not fit.
    pub fn classify(&self, hidden: &Tensor) -> Result<Option<Tensor>, ModelError> {
        let classifier = self.classifier.as_ref();
        classifier.map(|(linear, _)| linear.forward(&self.backend, hidden)).transpose()
    }
}

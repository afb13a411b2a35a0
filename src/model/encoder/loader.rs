//! [`EncoderLoader`]: an encoder's tensors by name.

use candle_core::Tensor;

use super::EncoderConfig;
use crate::model::ModelError;
use crate::model::layers::Linear;
use crate::ops::{self, Backend, PackedMatrix};
use crate::weights::{Weights, WeightsError};

/// What may stand in front of an encoder's names: nothing where the encoder was saved alone, else the name that its
/// task model gives it.
const PREFIXES: [&str; 3] = ["", "bert.", "roberta."];

/// Weight and bias of a layer norm.
pub(super) struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f32,
}

impl LayerNorm {
    pub(super) fn forward(&self, backend: &Backend, x: &Tensor) -> Result<Tensor, ModelError> {
        Ok(ops::layer_norm(backend, x, &self.weight, &self.bias, self.eps)?)
    }
}

/// Reads tensors of opened weights, checks their shapes, packs them for the backend, and reports progress.
pub(super) struct EncoderLoader<'a> {
    pub(super) backend: &'a Backend,
    pub(super) config: &'a EncoderConfig,
    weights: &'a Weights,
    prefix: &'static str,
    progress: &'a mut dyn FnMut(u64, u64),
    loaded_bytes: u64,
}

impl<'a> EncoderLoader<'a> {
    /// Finds what stands in front of the encoder's names.
    pub(super) fn new(
        backend: &'a Backend,
        config: &'a EncoderConfig,
        weights: &'a Weights,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Result<Self, ModelError> {
        let known = "embeddings.word_embeddings.weight";
        for prefix in PREFIXES {
            if weights.get(&format!("{prefix}{known}"))?.is_some() {
                return Ok(Self { backend, config, weights, prefix, progress, loaded_bytes: 0 });
            }
        }
        Err(WeightsError::MissingTensor { file: weights.path().to_owned(), tensor: known.to_owned() }.into())
    }

    /// The matrix `[out_features, in_features]` of the encoder's own.
    pub(super) fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<PackedMatrix, ModelError> {
        self.named_matrix(&format!("{}{name}", self.prefix), shape)
    }

    /// `<name>.weight` and `<name>.bias` of the encoder's own.
    pub(super) fn linear(&mut self, name: &str, shape: [usize; 2]) -> Result<Linear, ModelError> {
        let name = format!("{}{name}", self.prefix);
        self.named_linear(&name, shape)
    }

    /// `<name>.weight` and `<name>.bias` of the encoder's own, as a layer norm.
    pub(super) fn layer_norm(&mut self, name: &str) -> Result<LayerNorm, ModelError> {
        let (name, size) = (format!("{}{name}", self.prefix), self.config.hidden_size);
        Ok(LayerNorm {
            weight: self.named_vector(&format!("{name}.weight"), size)?,
            bias: self.named_vector(&format!("{name}.bias"), size)?,
            eps: self.config.layer_norm_eps,
        })
    }

    /// The token classifier, which stands outside of the encoder's prefix; its number of labels is its own.
    pub(super) fn classifier(&mut self) -> Result<Option<(Linear, usize)>, ModelError> {
        let Some(found) = self.weights.get("classifier.weight")? else { return Ok(None) };
        let labels = found.shape.first().copied().unwrap_or(0);
        let linear = self.named_linear("classifier", [labels, self.config.hidden_size])?;
        Ok(Some((linear, labels)))
    }

    fn named_linear(&mut self, name: &str, shape: [usize; 2]) -> Result<Linear, ModelError> {
        Ok(Linear {
            weight: self.named_matrix(&format!("{name}.weight"), shape)?,
            bias: Some(self.named_vector(&format!("{name}.bias"), shape[0])?),
        })
    }

    fn named_matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<PackedMatrix, ModelError> {
        let tensor = self.weights.require(name, &shape)?;
        let packed = PackedMatrix::pack(self.backend, &tensor)?;
        self.advance(tensor.data.len());
        Ok(packed)
    }

    fn named_vector(&mut self, name: &str, size: usize) -> Result<Tensor, ModelError> {
        let tensor = self.weights.require(name, &[size])?;
        let vector = ops::vector(self.backend, &tensor, 0.0)?;
        self.advance(tensor.data.len());
        Ok(vector)
    }

    fn advance(&mut self, bytes: usize) {
        self.loaded_bytes += bytes as u64;
        (self.progress)(self.loaded_bytes, self.weights.total_bytes().max(self.loaded_bytes));
    }
}

//! Models: the trait the engine drives, config dialects, shared layers, and one file a family; encoders beside them.

pub mod batch;
pub mod config;
pub mod encoder;
mod gemma3;
mod gemma4;
mod gpt_oss;
pub mod layers;
mod llama;
mod load;
mod quantization;
mod qwen3;
mod qwen3_5;
mod qwen3_moe;

pub use batch::{ForwardBatch, GroupBatch, SequenceTable};
pub use config::{
    Activation, ExpertSettings, Family, HeadSource, ModelConfig, RecurrentSettings, RopeSettings,
};
pub use layers::WeightPlacement;
pub use load::{check_device, load_model, measure_model};
pub use quantization::{QuantizationPlan, QuantizationReport};

use crate::kv::{KvPlan, LayerKv};
use crate::ops::{KvArena, OpError};
use crate::weights::WeightsError;
use candle_core::Tensor;

/// A causal language model over a paged KV cache.
pub trait CausalLm: Send {
    /// Shapes and settings.
    fn config(&self) -> &ModelConfig;

    /// What each layer caches.
    fn layer_kv(&self) -> Vec<LayerKv> {
        self.config().layer_kv()
    }

    /// Where its weights lie.
    fn weight_placement(&self) -> WeightPlacement;

    /// Computes a packed batch: writes every token's keys and values, and returns the final hidden states
    /// (after the last norm) of the batch's `output_rows`.
    ///
    /// # Shapes
    /// Returns `[output_rows, hidden_size]`. Once the last keys and values are written, only these rows go on.
    ///
    /// # Errors
    /// [`ModelError::Op`] from an operation.
    fn forward(&self, batch: &ForwardBatch, plan: &KvPlan, arena: &mut KvArena)
    -> Result<Tensor, ModelError>;

    /// Projects hidden states to the vocabulary: `[rows, hidden_size]` to `[rows, vocab_size]`. The caller keeps
    /// `rows` small.
    ///
    /// # Errors
    /// [`ModelError::Op`] from an operation.
    fn logits(&self, hidden: &Tensor) -> Result<Tensor, ModelError>;
}

/// What can go wrong with a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The files are damaged or do not fit the config.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// An operation refused its arguments.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A config field is missing, has the wrong type, or a value that cannot work.
    #[error("{file}: {field}: {reason}")]
    Config {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// What is wrong, with the numbers.
        reason: String,
    },
    /// A family longwick does not have.
    #[error("{file}: architecture {architecture:?} is not supported (supported: {supported})")]
    UnsupportedArchitecture {
        /// The file.
        file: String,
        /// What the file says.
        architecture: String,
        /// What there is.
        supported: String,
    },
    /// Float weights were to be quantised, and there is no matrix for it.
    #[error("{file}: nothing to quantise: {report}")]
    NothingToQuantize {
        /// The file.
        file: String,
        /// What the matrices are.
        report: Box<QuantizationReport>,
    },
    /// A tensor library error.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

//! [`FeedForward`]: a layer's second half.

use super::{ExpertMlp, GatedMlp};
use crate::model::ModelError;
use crate::ops::Backend;
use candle_core::Tensor;

/// One gated block for every token, or experts.
pub enum FeedForward {
    /// One block.
    Dense(GatedMlp),
    /// A mixture of experts.
    Experts(ExpertMlp),
}

impl FeedForward {
    /// `x: [rows, hidden]` to `[rows, hidden]`.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shapes do not fit.
    pub fn forward(&self, backend: &Backend, x: &Tensor) -> Result<Tensor, ModelError> {
        match self {
            Self::Dense(mlp) => mlp.forward(backend, x),
            Self::Experts(experts) => experts.forward(backend, x),
        }
    }

    /// Bytes held in memory.
    pub fn packed_bytes(&self) -> usize {
        match self {
            Self::Dense(mlp) => mlp.packed_bytes(),
            Self::Experts(experts) => experts.packed_bytes(),
        }
    }
}

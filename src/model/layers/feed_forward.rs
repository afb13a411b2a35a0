//! [`FeedForward`]: a layer's second half.

use super::{ExpertMlp, GatedMlp, LayerLoader};
use crate::model::{ExpertSettings, ModelError};
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
    /// Loads `prefix`: where the config gives the layer experts, by `experts(loader, prefix, settings)`; else one block.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where a tensor is missing or has another shape.
    pub fn load(
        loader: &mut LayerLoader<'_>,
        prefix: &str,
        layer: usize,
        experts: impl FnOnce(&mut LayerLoader<'_>, &str, &ExpertSettings) -> Result<ExpertMlp, ModelError>,
    ) -> Result<Self, ModelError> {
        match loader.config.experts.as_ref().filter(|settings| settings.has_layer(layer)) {
            Some(settings) => experts(loader, prefix, settings).map(Self::Experts),
            None => {
                let inner = loader.config.layer_intermediate_size(layer);
                GatedMlp::load(loader, prefix, inner).map(Self::Dense)
            }
        }
    }

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
}

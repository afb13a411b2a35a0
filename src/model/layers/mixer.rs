//! [`Mixer`]: the sub-block of a decoder layer that carries information between tokens.

use super::{Attention, ForwardContext, GatedDeltaNet, LayerLoader, Rows};
use crate::model::ModelError;
use crate::ops::KvArena;
use candle_core::Tensor;

/// What carries information between tokens.
pub(super) enum Mixer {
    /// Attention over the paged cache.
    Attention(Attention),
    /// The gated delta rule over a state slot.
    GatedDeltaNet(GatedDeltaNet),
}

impl Mixer {
    /// Loads `<prefix>.linear_attn` where the config says that the layer is recurrent, else `<prefix>.self_attn`;
    /// `normalises_heads` asks for norms of queries and keys.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where a tensor is missing or has another shape.
    pub(super) fn load(
        loader: &mut LayerLoader<'_>,
        prefix: &str,
        layer: usize,
        normalises_heads: bool,
    ) -> Result<Self, ModelError> {
        let config = loader.config;
        match config.recurrent_layer(layer) {
            Some(recurrent) => {
                GatedDeltaNet::load(loader, &format!("{prefix}.linear_attn"), layer, recurrent.shape)
                    .map(Self::GatedDeltaNet)
            }
            None => Attention::load(loader, &format!("{prefix}.self_attn"), layer, normalises_heads)
                .map(Self::Attention),
        }
    }

    pub(super) fn forward(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
        rows: Rows,
    ) -> Result<Tensor, ModelError> {
        match self {
            Self::Attention(attention) => attention.forward(x, context, arena, rows),
            Self::GatedDeltaNet(net) => net.forward(x, context, arena, rows),
        }
    }
}

//! [`PreNormBlock`]: the decoder layer of Llama, Qwen3, Qwen3.5 and gpt-oss.

use super::mixer::Mixer;
use super::{Block, FeedForward, ForwardContext, GatedMlp, LayerLoader, RmsNorm, Rows};
use crate::model::ModelError;
use crate::ops::{self, KvArena};
use candle_core::Tensor;

/// x + mixer(norm(x)), then x + feed_forward(norm(x)).
pub struct PreNormBlock {
    input_norm: RmsNorm,
    mixer: Mixer,
    post_attention_norm: RmsNorm,
    feed_forward: FeedForward,
}

impl PreNormBlock {
    /// Loads `model.layers.<layer>`; `normalises_heads` asks for norms of queries and keys.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where a tensor is missing or has another shape.
    pub fn load(
        loader: &mut LayerLoader<'_>,
        layer: usize,
        normalises_heads: bool,
    ) -> Result<Self, ModelError> {
        let dense = |loader: &mut LayerLoader<'_>, prefix: &str| {
            GatedMlp::load(loader, prefix, loader.config.layer_intermediate_size(layer))
                .map(FeedForward::Dense)
        };
        Self::with_feed_forward(loader, layer, normalises_heads, dense)
    }

    /// As [`Self::load`], with the feed-forward block that `feed_forward(loader, "model.layers.<layer>.mlp")` loads.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where a tensor is missing or has another shape.
    pub fn with_feed_forward(
        loader: &mut LayerLoader<'_>,
        layer: usize,
        normalises_heads: bool,
        feed_forward: impl FnOnce(&mut LayerLoader<'_>, &str) -> Result<FeedForward, ModelError>,
    ) -> Result<Self, ModelError> {
        let prefix = format!("model.layers.{layer}");
        let hidden = loader.config.hidden_size;
        Ok(Self {
            input_norm: RmsNorm::load(loader, &format!("{prefix}.input_layernorm.weight"), hidden)?,
            mixer: Mixer::load(loader, &prefix, layer, normalises_heads)?,
            post_attention_norm: RmsNorm::load(
                loader,
                &format!("{prefix}.post_attention_layernorm.weight"),
                hidden,
            )?,
            feed_forward: feed_forward(loader, &format!("{prefix}.mlp"))?,
        })
    }
}

impl Block for PreNormBlock {
    fn forward(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
        rows: Rows,
    ) -> Result<Tensor, ModelError> {
        let backend = context.backend;
        let normed = self.input_norm.forward(backend, x)?;
        let mixed = self.mixer.forward(&normed, context, arena, rows)?;
        let carried = context.carried_on(x, rows)?;
        let (residual, normed) = self.post_attention_norm.forward_sum(backend, &carried, &mixed)?;
        Ok(ops::add(backend, &residual, &self.feed_forward.forward(backend, &normed)?)?)
    }
}

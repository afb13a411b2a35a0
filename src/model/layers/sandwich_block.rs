//! [`SandwichBlock`]: the decoder layer of Gemma 3, with a norm before and after each sub-block.

use super::{Attention, Block, ForwardContext, GatedMlp, LayerLoader, RmsNorm, Rows};
use crate::model::ModelError;
use crate::ops::{self, KvArena};
use candle_core::Tensor;

/// x + norm(attention(norm(x))), then x + norm(mlp(norm(x))).
pub struct SandwichBlock {
    input_norm: RmsNorm,
    attention: Attention,
    post_attention_norm: RmsNorm,
    pre_feedforward_norm: RmsNorm,
    mlp: GatedMlp,
    post_feedforward_norm: RmsNorm,
}

impl SandwichBlock {
    /// Loads `model.layers.<layer>`.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where a tensor is missing or has another shape.
    pub fn load(loader: &mut LayerLoader<'_>, layer: usize) -> Result<Self, ModelError> {
        let prefix = format!("model.layers.{layer}");
        let hidden = loader.config.hidden_size;
        let norm = |loader: &mut LayerLoader<'_>, name: &str| {
            RmsNorm::load(loader, &format!("{prefix}.{name}.weight"), hidden)
        };
        Ok(Self {
            input_norm: norm(loader, "input_layernorm")?,
            attention: Attention::load(loader, &format!("{prefix}.self_attn"), layer, true)?,
            post_attention_norm: norm(loader, "post_attention_layernorm")?,
            pre_feedforward_norm: norm(loader, "pre_feedforward_layernorm")?,
            mlp: GatedMlp::load(
                loader,
                &format!("{prefix}.mlp"),
                loader.config.layer_intermediate_size(layer),
            )?,
            post_feedforward_norm: norm(loader, "post_feedforward_layernorm")?,
        })
    }
}

impl Block for SandwichBlock {
    fn forward(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
        rows: Rows,
    ) -> Result<Tensor, ModelError> {
        let backend = context.backend;
        let normed = self.input_norm.forward(backend, x)?;
        let attended = self.attention.forward(&normed, context, arena, rows)?;
        let attended = self.post_attention_norm.forward(backend, &attended)?;
        let carried = context.carried_on(x, rows)?;
        let (residual, normed) = self.pre_feedforward_norm.forward_sum(backend, &carried, &attended)?;
        let fed = self.mlp.forward(backend, &normed)?;
        let fed = self.post_feedforward_norm.forward(backend, &fed)?;
        Ok(ops::add(backend, &residual, &fed)?)
    }
}

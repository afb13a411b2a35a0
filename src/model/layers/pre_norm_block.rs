//! [`PreNormBlock`]: the decoder layer of Llama and Qwen3.

use super::{Attention, Block, ForwardContext, GatedMlp, LayerLoader, RmsNorm, Rows};
use crate::model::ModelError;
use crate::ops::{self, KvArena};
use candle_core::Tensor;

/// x + attention(norm(x)), then x + mlp(norm(x)).
pub struct PreNormBlock {
    input_norm: RmsNorm,
    attention: Attention,
    post_attention_norm: RmsNorm,
    mlp: GatedMlp,
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
        let prefix = format!("model.layers.{layer}");
        let hidden = loader.config.hidden_size;
        Ok(Self {
            input_norm: RmsNorm::load(loader, &format!("{prefix}.input_layernorm.weight"), hidden)?,
            attention: Attention::load(loader, &format!("{prefix}.self_attn"), layer, normalises_heads)?,
            post_attention_norm: RmsNorm::load(
                loader,
                &format!("{prefix}.post_attention_layernorm.weight"),
                hidden,
            )?,
            mlp: GatedMlp::load(loader, &format!("{prefix}.mlp"), loader.config.intermediate_size)?,
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
        let attended = self.attention.forward(&normed, context, arena, rows)?;
        let residual = ops::add(backend, &context.carried_on(x, rows)?, &attended)?;
        let normed = self.post_attention_norm.forward(backend, &residual)?;
        Ok(ops::add(backend, &residual, &self.mlp.forward(backend, &normed)?)?)
    }

    fn packed_bytes(&self) -> usize {
        self.attention.packed_bytes() + self.mlp.packed_bytes()
    }
}

//! Gemma 3, text: norms before and after each sub-block, GELU-tanh, scaled embeddings, five sliding layers to one
//! full layer, each kind with its own rotary base.

use super::layers::{Attention, Block, Decoder, ForwardContext, GatedMlp, LayerLoader, RmsNorm, Rows};
use super::{CausalLm, ModelError};
use crate::ops::{self, KvArena};
use candle_core::Tensor;

/// x + norm(attention(norm(x))), then x + norm(mlp(norm(x))).
struct SandwichBlock {
    input_norm: RmsNorm,
    attention: Attention,
    post_attention_norm: RmsNorm,
    pre_feedforward_norm: RmsNorm,
    mlp: GatedMlp,
    post_feedforward_norm: RmsNorm,
}

impl SandwichBlock {
    fn load(loader: &mut LayerLoader<'_>, layer: usize) -> Result<Self, ModelError> {
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
            mlp: GatedMlp::load(loader, &format!("{prefix}.mlp"))?,
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
        let residual = match rows {
            Rows::All => ops::add(backend, x, &attended)?,
            Rows::Selected => {
                let x = ops::select_rows(backend, x, &context.batch.output_rows)?;
                ops::add(backend, &x, &attended)?
            }
        };
        let normed = self.pre_feedforward_norm.forward(backend, &residual)?;
        let fed = self.mlp.forward(backend, &normed)?;
        let fed = self.post_feedforward_norm.forward(backend, &fed)?;
        Ok(ops::add(backend, &residual, &fed)?)
    }

    fn packed_bytes(&self) -> usize {
        self.attention.packed_bytes() + self.mlp.packed_bytes()
    }
}

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    Ok(Box::new(Decoder::load(loader, SandwichBlock::load)?))
}

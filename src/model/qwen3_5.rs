//! Qwen3.5, dense, text: three layers of Gated DeltaNet to one of gated full attention, whose heads rotate in part; norms
//! centred on zero.

use super::layers::{
    Attention, Block, Decoder, ForwardContext, GatedDeltaNet, GatedMlp, LayerLoader, RmsNorm, Rows,
};
use super::{CausalLm, ModelError};
use crate::ops::{self, KvArena};
use candle_core::Tensor;

/// What carries information between tokens.
enum Mixer {
    Attention(Attention),
    GatedDeltaNet(GatedDeltaNet),
}

impl Mixer {
    fn load(loader: &mut LayerLoader<'_>, prefix: &str, layer: usize) -> Result<Self, ModelError> {
        let config = loader.config;
        match config.recurrent_layer(layer) {
            Some(recurrent) => {
                GatedDeltaNet::load(loader, &format!("{prefix}.linear_attn"), layer, recurrent.shape)
                    .map(Self::GatedDeltaNet)
            }
            None => Attention::load(loader, &format!("{prefix}.self_attn"), layer, true).map(Self::Attention),
        }
    }

    fn forward(
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

/// x + mixer(norm(x)), then x + mlp(norm(x)).
struct HybridBlock {
    input_norm: RmsNorm,
    mixer: Mixer,
    post_attention_norm: RmsNorm,
    mlp: GatedMlp,
}

impl HybridBlock {
    fn load(loader: &mut LayerLoader<'_>, layer: usize) -> Result<Self, ModelError> {
        let prefix = format!("model.layers.{layer}");
        let hidden = loader.config.hidden_size;
        let norm = |loader: &mut LayerLoader<'_>, name: &str| {
            RmsNorm::load(loader, &format!("{prefix}.{name}.weight"), hidden)
        };
        Ok(Self {
            input_norm: norm(loader, "input_layernorm")?,
            mixer: Mixer::load(loader, &prefix, layer)?,
            post_attention_norm: norm(loader, "post_attention_layernorm")?,
            mlp: GatedMlp::load(loader, &format!("{prefix}.mlp"), loader.config.intermediate_size)?,
        })
    }
}

impl Block for HybridBlock {
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
        let residual = ops::add(backend, &context.carried_on(x, rows)?, &mixed)?;
        let normed = self.post_attention_norm.forward(backend, &residual)?;
        Ok(ops::add(backend, &residual, &self.mlp.forward(backend, &normed)?)?)
    }

    fn packed_bytes(&self) -> usize {
        let mixer = match &self.mixer {
            Mixer::Attention(attention) => attention.packed_bytes(),
            Mixer::GatedDeltaNet(net) => net.packed_bytes(),
        };
        mixer + self.mlp.packed_bytes()
    }
}

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    Ok(Box::new(Decoder::load(loader, HybridBlock::load)?))
}

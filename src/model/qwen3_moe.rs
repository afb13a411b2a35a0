//! Qwen3-MoE: Qwen3 with experts in the place of the feed-forward block, in all layers or some.

use super::layers::{Decoder, Expert, ExpertMlp, FeedForward, LayerLoader, Linear, PreNormBlock};
use super::{CausalLm, ExpertSettings, ModelError};
use crate::ops::PackedMatrix;

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    Ok(Box::new(Decoder::load(loader, |loader, layer| {
        PreNormBlock::with_feed_forward(loader, layer, true, |loader, prefix| {
            FeedForward::load(loader, prefix, layer, experts)
        })
    })?))
}

fn experts(
    loader: &mut LayerLoader<'_>,
    prefix: &str,
    settings: &ExpertSettings,
) -> Result<ExpertMlp, ModelError> {
    let (hidden, inner) = (loader.config.hidden_size, settings.intermediate_size);
    let router = loader.matrix(&format!("{prefix}.gate.weight"), settings.num_experts, hidden)?;
    // GGUF files hold one tensor for all experts of a layer; published HF checkpoints one for each.
    let is_stacked = loader.has(&format!("{prefix}.experts.gate_proj.weight"))?;
    let mut projection =
        |name: &str, out_features: usize, in_features: usize| -> Result<Vec<PackedMatrix>, ModelError> {
            if is_stacked {
                let name = format!("{prefix}.experts.{name}.weight");
                return loader.stacked_matrices(&name, settings.num_experts, out_features, in_features);
            }
            let name = |expert: usize| format!("{prefix}.experts.{expert}.{name}.weight");
            (0..settings.num_experts).map(|e| loader.matrix(&name(e), out_features, in_features)).collect()
        };
    let gates = projection("gate_proj", inner, hidden)?;
    let ups = projection("up_proj", inner, hidden)?;
    let downs = projection("down_proj", hidden, inner)?;
    let plain = |weight| Linear { weight, bias: None };
    let experts = gates.into_iter().zip(ups).zip(downs).map(|((gate, up), down)| Expert {
        gate: plain(gate),
        up: plain(up),
        down: plain(down),
    });
    let experts = experts.collect();
    Ok(ExpertMlp::new(loader, settings, plain(router), experts))
}

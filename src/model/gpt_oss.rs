//! gpt-oss: experts in every layer, biases everywhere, attention sinks, sliding and full layers in turn.

use super::layers::{Decoder, Expert, ExpertMlp, FeedForward, LayerLoader, Linear, PreNormBlock};
use super::{CausalLm, ExpertSettings, ModelError};
use crate::ops::PackedMatrix;
use candle_core::Tensor;

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    Ok(Box::new(Decoder::load(loader, |loader, layer| {
        PreNormBlock::with_feed_forward(loader, layer, false, |loader, prefix| {
            FeedForward::load(loader, prefix, layer, experts)
        })
    })?))
}

fn experts(
    loader: &mut LayerLoader<'_>,
    prefix: &str,
    settings: &ExpertSettings,
) -> Result<ExpertMlp, ModelError> {
    let hidden = loader.config.hidden_size;
    let router = loader.linear(&format!("{prefix}.router"), settings.num_experts, hidden, true)?;
    let prefix = format!("{prefix}.experts");
    let (gates, ups) = match loader.has(&format!("{prefix}.gate_proj.weight"))? {
        true => {
            (stacked(loader, &prefix, "gate_proj", settings)?, stacked(loader, &prefix, "up_proj", settings)?)
        }
        false => published_gates_and_ups(loader, &prefix, settings)?,
    };
    let downs = match loader.has(&format!("{prefix}.down_proj.weight"))? {
        true => stacked(loader, &prefix, "down_proj", settings)?,
        false => published_downs(loader, &prefix, settings)?,
    };
    let experts = gates.into_iter().zip(ups).zip(downs);
    let experts = experts.map(|((gate, up), down)| Expert { gate, up, down }).collect();
    Ok(ExpertMlp::new(loader, settings, router, experts))
}

/// A projection of all experts, as GGUF files hold it.
fn stacked(
    loader: &mut LayerLoader<'_>,
    prefix: &str,
    projection: &str,
    settings: &ExpertSettings,
) -> Result<Vec<Linear>, ModelError> {
    let (hidden, inner, count) =
        (loader.config.hidden_size, settings.intermediate_size, settings.num_experts);
    let (rows, columns) = if projection == "down_proj" { (hidden, inner) } else { (inner, hidden) };
    let weights = loader.stacked_matrices(&format!("{prefix}.{projection}.weight"), count, rows, columns)?;
    let biases = loader.stacked_vectors(&format!("{prefix}.{projection}.bias"), count, rows)?;
    Ok(linears(weights, biases))
}

/// The rows of gate and up projection alternate in the published tensors: a gate first.
fn published_gates_and_ups(
    loader: &mut LayerLoader<'_>,
    prefix: &str,
    settings: &ExpertSettings,
) -> Result<(Vec<Linear>, Vec<Linear>), ModelError> {
    let (hidden, inner, count) =
        (loader.config.hidden_size, settings.intermediate_size, settings.num_experts);
    let [gate_biases, up_biases] =
        loader.alternating_vectors(&format!("{prefix}.gate_up_proj_bias"), count, inner)?;
    let mut half = |first: usize| {
        let rows = (first..2 * inner).step_by(2);
        loader.mxfp4_matrices(&format!("{prefix}.gate_up_proj"), [count, 2 * inner, hidden], rows)
    };
    Ok((linears(half(0)?, gate_biases), linears(half(1)?, up_biases)))
}

fn published_downs(
    loader: &mut LayerLoader<'_>,
    prefix: &str,
    settings: &ExpertSettings,
) -> Result<Vec<Linear>, ModelError> {
    let (hidden, inner, count) =
        (loader.config.hidden_size, settings.intermediate_size, settings.num_experts);
    let biases = loader.stacked_vectors(&format!("{prefix}.down_proj_bias"), count, hidden)?;
    let weights = loader.mxfp4_matrices(&format!("{prefix}.down_proj"), [count, hidden, inner], 0..hidden)?;
    Ok(linears(weights, biases))
}

fn linears(weights: Vec<PackedMatrix>, biases: Vec<Tensor>) -> Vec<Linear> {
    let biased = |(weight, bias)| Linear { weight, bias: Some(bias) };
    weights.into_iter().zip(biases).map(biased).collect()
}

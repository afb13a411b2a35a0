//! Qwen3.5 in the GGUF dialect.
//!
//! What the converter changes, and where that is undone:
//! * norms get the 1 added that the model adds, but for the one inside the recurrent layers: no offset is added here;
//! * `A_log` is written as its negative exponential: [`RecurrentSettings::holds_decay_rates`];
//! * the convolution loses its dimension of size one: the loader takes both shapes;
//! * value heads are dealt out to key heads in turn, in all that has a row, a channel or (of the output projection) a
//!   column a value head: nothing is undone, [`RecurrentShape::value_heads_in_turn`] says which key head each reads;
//! * layers behind the last one are the head for several tokens, which is not used.
//!
//! # Source
//! `conversion/qwen.py` (`Qwen3NextModel`, `_LinearAttentionVReorderBase`, `Qwen3_5TextModel`) and `src/models/qwen35.cpp`
//! of llama.cpp b11434 (MIT), read 2026-12.

use super::gguf::Fields;
use super::{Activation, Family, HeadSource, ModelConfig, RecurrentSettings, RopeScaling, RopeSettings};
use crate::model::ModelError;
use crate::ops::{RecurrentShape, RopeLayout};
use crate::weights::Weights;

/// Every fourth layer is a full one where the file names neither layers nor a period.
const LAYER_PERIOD: usize = 4;

pub(super) fn read(fields: &Fields<'_>, weights: &Weights) -> Result<ModelConfig, ModelError> {
    let hidden_size = fields.required_size("embedding_length")?;
    let num_heads = fields.required_size("attention.head_count")?;
    let blocks = fields.required_size("block_count")?.min(1 << 20);
    let num_layers = blocks.saturating_sub(fields.size("nextn_predict_layers")?.unwrap_or(0));
    let head_dim = match fields.size("attention.key_length")? {
        Some(length) => length,
        None => hidden_size.checked_div(num_heads).unwrap_or(0),
    };
    let embedding = weights.get("model.embed_tokens.weight")?;
    let rope = RopeSettings {
        theta: fields.float("rope.freq_base")?.unwrap_or(10_000.0),
        rotary_dim: fields.required_size("rope.dimension_count")?,
        scaling: RopeScaling::None,
    };
    Ok(ModelConfig {
        family: Family::Qwen3_5,
        vocab_size: embedding.and_then(|tensor| tensor.shape.first().copied()).unwrap_or(0),
        hidden_size,
        intermediate_size: fields.required_size("feed_forward_length")?,
        experts: None,
        num_heads,
        num_kv_heads: fields.size("attention.head_count_kv")?.unwrap_or(num_heads),
        head_dim,
        rms_norm_eps: fields.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-6),
        norm_offset: 0.0,
        context_length: fields.required_size("context_length")?,
        layer_windows: vec![None; num_layers],
        rope,
        rope_sliding: rope,
        rope_layout: RopeLayout::HalfRotation,
        recurrent: Some(RecurrentSettings {
            shape: shape(fields)?,
            layers: layers(fields, blocks, num_layers)?,
            holds_decay_rates: true,
        }),
        attention_bias: false,
        attention_sinks: false,
        attention_output_gate: true,
        attention_scale: 1.0 / (head_dim as f32).sqrt(),
        activation: Activation::Silu,
        embedding_scale: None,
        attention_soft_cap: None,
        logit_soft_cap: None,
        head: HeadSource::WhatThereIs,
        gemma4: None,
    })
}

fn shape(fields: &Fields<'_>) -> Result<RecurrentShape, ModelError> {
    let value_heads = fields.required_size("ssm.time_step_rank")?;
    let values = fields.required_size("ssm.inner_size")?;
    if value_heads == 0 || !values.is_multiple_of(value_heads) {
        let reason = format!("{values} is no multiple of the {value_heads} value heads");
        return fields.fail(&fields.key("ssm.inner_size"), reason);
    }
    Ok(RecurrentShape {
        key_heads: fields.required_size("ssm.group_count")?,
        value_heads,
        key_dim: fields.required_size("ssm.state_size")?,
        value_dim: values / value_heads,
        conv_kernel: fields.required_size("ssm.conv_kernel")?,
        value_heads_in_turn: true,
    })
}

/// Whether each of the first `num_layers` of `blocks` layers is recurrent.
fn layers(fields: &Fields<'_>, blocks: usize, num_layers: usize) -> Result<Vec<bool>, ModelError> {
    let key = fields.key("attention.recurrent_layers");
    if let Some(mut layers) = fields.metadata.bools(&key)? {
        if layers.len() != blocks {
            return fields.fail(&key, format!("{} entries for {blocks} layers", layers.len()));
        }
        layers.truncate(num_layers);
        return Ok(layers);
    }
    let period = fields.size("full_attention_interval")?.unwrap_or(LAYER_PERIOD);
    if period == 0 {
        return fields.fail(&fields.key("full_attention_interval"), "0 is no period".to_owned());
    }
    Ok((0..num_layers).map(|layer| !(layer + 1).is_multiple_of(period)).collect())
}

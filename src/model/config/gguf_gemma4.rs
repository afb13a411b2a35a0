//! Gemma 4 in the GGUF dialect.
//!
//! # Source
//! `conversion/gemma.py` and `src/models/gemma4.cpp` of llama.cpp b11434 (MIT), read 2026-11.

use super::gguf::{Fields, ROPE_DIVISORS, rope_divisors};
use super::{
    Activation, Family, Gemma4Settings, HeadSource, KvHeads, ModelConfig, PerLayerInputs, RopeScaling,
    RopeSettings,
};
use crate::model::ModelError;
use crate::ops::RopeLayout;
use crate::weights::{Weights, WeightsError};

/// Divisors of the frequencies in `rope_freqs.weight` from here on mean that a pair stands still; the converter
/// writes 1e30 there, and 1 for a pair that rotates.
const STANDS_STILL: f32 = 1e20;

pub(super) fn read(fields: &Fields<'_>, weights: &Weights) -> Result<ModelConfig, ModelError> {
    if let Some(experts) = fields.size("expert_count")?.filter(|&experts| experts > 0) {
        let reason = format!("{experts}: the mixture of experts of Gemma 4 is not built");
        return fields.fail(&fields.key("expert_count"), reason);
    }
    let hidden_size = fields.required_size("embedding_length")?;
    let num_heads = fields.required_size("attention.head_count")?;
    let num_layers = fields.required_size("block_count")?.min(1 << 20);
    let rows = |name: &str| -> Result<usize, ModelError> {
        Ok(weights.get(name)?.and_then(|tensor| tensor.shape.first().copied()).unwrap_or(0))
    };
    let layer_windows = layer_windows(fields, num_layers)?;
    let num_kv_shared_layers = fields.size("attention.shared_kv_layers")?.unwrap_or(0);
    let own = num_layers.saturating_sub(num_kv_shared_layers);
    let intermediate = by_layer(fields, "feed_forward_length", num_layers)?;
    let intermediate_of = |shared: bool| first(&intermediate, |layer| (layer >= own) == shared);
    let intermediate_size = intermediate_of(false).unwrap_or(0);
    let kv_heads = by_layer(fields, "attention.head_count_kv", num_layers)?;
    let kv_heads_of = |slides: bool| first(&kv_heads, |layer| layer_windows[layer].is_some() == slides);
    let (num_kv_heads, full_kv_heads) = (kv_heads_of(true), kv_heads_of(false));
    let (head_dim, full_head_dim) = (head_dim(fields, "_swa")?, head_dim(fields, "")?);
    let per_layer_size = fields.required_size("embedding_length_per_layer_input")?;
    let config = ModelConfig {
        family: Family::Gemma4,
        vocab_size: rows("model.embed_tokens.weight")?,
        hidden_size,
        intermediate_size,
        experts: None,
        num_heads,
        num_kv_heads: num_kv_heads.or(full_kv_heads).unwrap_or(0),
        head_dim,
        rms_norm_eps: fields.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-6),
        norm_offset: 0.0,
        context_length: fields.required_size("context_length")?,
        rope: full_rope(fields, weights, full_head_dim)?,
        rope_sliding: RopeSettings {
            theta: fields.float("rope.freq_base_swa")?.unwrap_or(10_000.0),
            rotary_dim: fields.size("rope.dimension_count_swa")?.unwrap_or(head_dim).min(head_dim),
            scaling: RopeScaling::None,
        },
        rope_layout: RopeLayout::HalfRotation,
        recurrent: None,
        attention_bias: false,
        attention_sinks: false,
        attention_output_gate: false,
        attention_scale: 1.0,
        activation: Activation::GeluTanh,
        embedding_scale: Some((hidden_size as f32).sqrt()),
        attention_soft_cap: None,
        logit_soft_cap: fields.float("final_logit_softcapping")?,
        head: HeadSource::WhatThereIs,
        gemma4: Some(Gemma4Settings {
            full_heads: KvHeads { kv_heads: full_kv_heads.unwrap_or(0), head_dim: full_head_dim },
            full_keys_are_values: full_keys_are_values(weights, &layer_windows[..own])?,
            num_kv_shared_layers,
            shared_mlp_is_double_wide: intermediate_of(true) == Some(2 * intermediate_size),
            per_layer_inputs: match per_layer_size {
                0 => None,
                size => {
                    Some(PerLayerInputs { vocab_size: rows("model.embed_tokens_per_layer.weight")?, size })
                }
            },
        }),
        layer_windows,
    };
    check_layers(fields, &config, &intermediate, &kv_heads)?;
    Ok(config)
}

/// A number for each layer: the file's list, or its one number for all.
fn by_layer(fields: &Fields<'_>, key: &str, num_layers: usize) -> Result<Vec<usize>, ModelError> {
    let full_key = fields.key(key);
    let list = match fields.metadata.i64s(&full_key) {
        Ok(list) => list,
        Err(WeightsError::KeyType { .. }) => return Ok(vec![fields.required_size(key)?; num_layers]),
        Err(error) => return Err(error.into()),
    };
    let list = list.ok_or_else(|| fields.missing(&full_key))?;
    if list.len() != num_layers {
        return fields.fail(&full_key, format!("{} entries for {num_layers} layers", list.len()));
    }
    // A negative number is no size; 0 is refused with the others.
    Ok(list.into_iter().map(|number| usize::try_from(number).unwrap_or(0)).collect())
}

fn first(numbers: &[usize], is_meant: impl Fn(usize) -> bool) -> Option<usize> {
    (0..numbers.len()).find(|&layer| is_meant(layer)).map(|layer| numbers[layer])
}

/// Layers of a kind must be alike, and feed-forward blocks of two widths at most, as `Gemma4Settings` has them.
fn check_layers(
    fields: &Fields<'_>,
    config: &ModelConfig,
    intermediate: &[usize],
    kv_heads: &[usize],
) -> Result<(), ModelError> {
    for layer in 0..config.num_layers() {
        for (key, found, expected) in [
            ("feed_forward_length", intermediate[layer], config.layer_intermediate_size(layer)),
            ("attention.head_count_kv", kv_heads[layer], config.kv_heads(layer).kv_heads),
        ] {
            if found != expected {
                let reason = format!("{found} in layer {layer}, where layers like it have {expected}");
                return fields.fail(&fields.key(key), reason);
            }
        }
    }
    Ok(())
}

fn layer_windows(fields: &Fields<'_>, num_layers: usize) -> Result<Vec<Option<u32>>, ModelError> {
    let key = fields.key("attention.sliding_window_pattern");
    let slides = fields.metadata.bools(&key)?.ok_or_else(|| fields.missing(&key))?;
    if slides.len() != num_layers {
        return fields.fail(&key, format!("{} entries for {num_layers} layers", slides.len()));
    }
    let window = fields.required_size("attention.sliding_window")?;
    let window = u32::try_from(window).unwrap_or(u32::MAX);
    Ok(slides.into_iter().map(|slides| slides.then_some(window)).collect())
}

/// The head size of sliding (`suffix` is `_swa`) or full layers.
fn head_dim(fields: &Fields<'_>, suffix: &str) -> Result<usize, ModelError> {
    let keys = fields.required_size(&format!("attention.key_length{suffix}"))?;
    let value_key = format!("attention.value_length{suffix}");
    match fields.size(&value_key)? {
        Some(values) if values != keys => {
            fields.fail(&fields.key(&value_key), format!("{values}, where keys have {keys} elements"))
        }
        _ => Ok(keys),
    }
}

fn full_rope(fields: &Fields<'_>, weights: &Weights, head_dim: usize) -> Result<RopeSettings, ModelError> {
    let divisors = rope_divisors(fields, weights, head_dim / 2)?;
    let rotating_pairs = divisors.iter().take_while(|&&divisor| divisor == 1.0).count();
    let others_stand = divisors[rotating_pairs..].iter().all(|&divisor| divisor >= STANDS_STILL);
    if !others_stand {
        let reason = "is not a list of divisors that are first 1 and then at least 1e20".to_owned();
        return fields.fail(ROPE_DIVISORS, reason);
    }
    Ok(RopeSettings {
        theta: fields.float("rope.freq_base")?.unwrap_or(1_000_000.0),
        rotary_dim: head_dim,
        scaling: RopeScaling::Proportional { rotating_pairs, factor: 1.0 },
    })
}

/// GGUF files say it by leaving the value projections of all full layers out.
fn full_keys_are_values(weights: &Weights, own_windows: &[Option<u32>]) -> Result<bool, ModelError> {
    for (layer, window) in own_windows.iter().enumerate() {
        let name = format!("model.layers.{layer}.self_attn.v_proj.weight");
        if window.is_none() && weights.get(&name)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

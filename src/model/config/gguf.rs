//! The GGUF dialect: keys under the architecture's name.

use super::{
    Activation, ExpertSettings, Family, HeadSource, ModelConfig, RopeScaling, RopeSettings, Yarn,
    gguf_gemma4, gguf_llama3, gguf_qwen3_5,
};
use crate::model::ModelError;
use crate::ops::RopeLayout;
use crate::weights::{GgufMetadata, WeightDtype, Weights};

/// The base that Gemma 3's sliding layers rotate with; GGUF files do not say it.
const GEMMA3_SLIDING_THETA: f32 = 10_000.0;
/// Every sixth layer of Gemma 3 is a full one.
const GEMMA3_LAYER_PERIOD: usize = 6;
/// The tensor of divisors of the frequencies.
pub(super) const ROPE_DIVISORS: &str = "rope_freqs.weight";
/// Every second layer of gpt-oss is a full one.
const GPT_OSS_LAYER_PERIOD: usize = 2;

pub(super) struct Fields<'a> {
    pub(super) metadata: &'a GgufMetadata,
    architecture: &'a str,
    file: String,
}

impl Fields<'_> {
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub(super) fn fail<T>(&self, field: &str, reason: String) -> Result<T, ModelError> {
        Err(ModelError::Config { file: self.file.clone(), field: field.to_owned(), reason })
    }

    pub(super) fn missing(&self, key: &str) -> ModelError {
        ModelError::Config { file: self.file.clone(), field: key.to_owned(), reason: "is missing".to_owned() }
    }

    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        Ok(self.metadata.u64(&self.key(key))?.map(|value| usize::try_from(value).unwrap_or(usize::MAX)))
    }

    pub(super) fn required_size(&self, key: &str) -> Result<usize, ModelError> {
        self.size(key)?.ok_or_else(|| self.missing(&self.key(key)))
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f32>, ModelError> {
        Ok(self.metadata.f32(&self.key(key))?)
    }

    fn rope_scaling(&self, family: Family) -> Result<RopeScaling, ModelError> {
        let key = self.key("rope.scaling.type");
        let required = |key: &str| {
            let missing = || self.missing(&self.key(key));
            self.float(key)?.ok_or_else(missing)
        };
        match self.metadata.string(&key)? {
            None | Some("none") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor: required("rope.scaling.factor")? }),
            Some("yarn") => {
                let factor = required("rope.scaling.factor")?;
                let original_context = self.required_size("rope.scaling.original_context_length")?;
                Ok(RopeScaling::Yarn(Yarn {
                    factor,
                    original_context: original_context as f32,
                    beta_fast: self.float("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                    beta_slow: self.float("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                    // The published gpt-oss configs say false, for which GGUF has no key.
                    truncate: family != Family::GptOss,
                    attention_factor: Yarn::default_attention_factor(factor, 1.0) as f32,
                }))
            }
            Some(other) => Err(ModelError::Config {
                file: self.file.clone(),
                field: key,
                reason: format!("{other:?} is not supported (supported: none, linear, yarn)"),
            }),
        }
    }
}

pub(super) fn read(metadata: &GgufMetadata, weights: &Weights) -> Result<ModelConfig, ModelError> {
    let file = weights.path().display().to_string();
    let architecture = metadata.architecture()?;
    let family = Family::from_name(architecture, &file)?;
    match family {
        Family::Gemma4 => gguf_gemma4::read(&Fields { metadata, architecture, file }, weights),
        Family::Qwen3_5 => gguf_qwen3_5::read(&Fields { metadata, architecture, file }, weights),
        _ => read_common(&Fields { metadata, architecture, file }, family, weights),
    }
}

/// Reads what needs no fields of its family's own.
fn read_common(fields: &Fields<'_>, family: Family, weights: &Weights) -> Result<ModelConfig, ModelError> {
    let hidden_size = fields.required_size("embedding_length")?;
    let num_heads = fields.required_size("attention.head_count")?;
    let head_dim = match fields.size("attention.key_length")? {
        Some(length) => length,
        None => hidden_size.checked_div(num_heads).unwrap_or(0),
    };
    let num_layers = fields.required_size("block_count")?.min(1 << 20);
    let embedding = weights.get("model.embed_tokens.weight")?;
    let vocab_size = embedding.map(|tensor| tensor.shape.first().copied().unwrap_or(0));
    let unscaled = RopeSettings {
        theta: fields.float("rope.freq_base")?.unwrap_or(10_000.0),
        rotary_dim: fields.size("rope.dimension_count")?.unwrap_or(head_dim),
        scaling: RopeScaling::None,
    };
    let scaling = match weights.get(ROPE_DIVISORS)? {
        Some(_) => scaling_of_divisors(fields, family, weights, unscaled)?,
        None => fields.rope_scaling(family)?,
    };
    let rope = RopeSettings { scaling, ..unscaled };
    let gemma = family == Family::Gemma3;
    let sliding = RopeSettings { theta: GEMMA3_SLIDING_THETA, scaling: RopeScaling::None, ..rope };
    Ok(ModelConfig {
        family,
        vocab_size: vocab_size.unwrap_or(0),
        hidden_size,
        intermediate_size: fields.required_size("feed_forward_length")?,
        experts: experts(fields, family, num_layers)?,
        num_heads,
        num_kv_heads: fields.size("attention.head_count_kv")?.unwrap_or(num_heads),
        head_dim,
        rms_norm_eps: fields.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-6),
        // GGUF files of Gemma store the norm weights with the 1 already added.
        norm_offset: 0.0,
        context_length: fields.required_size("context_length")?,
        layer_windows: layer_windows(fields, family, num_layers)?,
        rope,
        rope_sliding: if gemma { sliding } else { rope },
        rope_layout: match family {
            Family::Llama => RopeLayout::Interleaved,
            _ => RopeLayout::HalfRotation,
        },
        recurrent: None,
        attention_bias: family == Family::GptOss
            || weights.get("model.layers.0.self_attn.q_proj.bias")?.is_some(),
        attention_sinks: family == Family::GptOss,
        attention_output_gate: false,
        attention_scale: attention_scale(family, num_layers, hidden_size, num_heads, head_dim),
        activation: match family {
            Family::Gemma3 => Activation::GeluTanh,
            // Files do not say the numbers, which all published models share.
            Family::GptOss => Activation::ClampedSwiglu { alpha: 1.702, limit: 7.0 },
            _ => Activation::Silu,
        },
        embedding_scale: gemma.then(|| (hidden_size as f32).sqrt()),
        attention_soft_cap: None,
        logit_soft_cap: fields.float("final_logit_softcapping")?,
        head: HeadSource::WhatThereIs,
        gemma4: None,
    })
}

/// A divisor of each frequency.
///
/// # Errors
/// When they are not `pairs` f32.
pub(super) fn rope_divisors(
    fields: &Fields<'_>,
    weights: &Weights,
    pairs: usize,
) -> Result<Vec<f32>, ModelError> {
    let tensor = weights.require(ROPE_DIVISORS, &[pairs])?;
    if tensor.dtype != WeightDtype::F32 {
        return fields.fail(ROPE_DIVISORS, format!("is {}, not f32", tensor.dtype));
    }
    Ok(tensor.data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn scaling_of_divisors(
    fields: &Fields<'_>,
    family: Family,
    weights: &Weights,
    unscaled: RopeSettings,
) -> Result<RopeScaling, ModelError> {
    let divisors = rope_divisors(fields, weights, unscaled.rotary_dim / 2)?;
    match gguf_llama3::scaling(&divisors, unscaled) {
        Some(scaling) if family == Family::Llama => Ok(scaling),
        _ => {
            let reason =
                "divides the frequencies otherwise than Llama 3 does, which is not supported".to_owned();
            fields.fail(ROPE_DIVISORS, reason)
        }
    }
}

/// Of each period's layers the last is a full one; GGUF files do not say the period.
fn layer_windows(
    fields: &Fields<'_>,
    family: Family,
    num_layers: usize,
) -> Result<Vec<Option<u32>>, ModelError> {
    let period = match family {
        Family::Gemma3 => GEMMA3_LAYER_PERIOD,
        Family::GptOss => GPT_OSS_LAYER_PERIOD,
        _ => return Ok(vec![None; num_layers]),
    };
    let window = u32::try_from(fields.required_size("attention.sliding_window")?).unwrap_or(u32::MAX);
    let slides = |layer: usize| !(layer + 1).is_multiple_of(period);
    Ok((0..num_layers).map(|layer| slides(layer).then_some(window)).collect())
}

/// Files of this dialect have experts in every layer, and weights that add up to 1.
fn experts(
    fields: &Fields<'_>,
    family: Family,
    num_layers: usize,
) -> Result<Option<ExpertSettings>, ModelError> {
    if !matches!(family, Family::Qwen3Moe | Family::GptOss) {
        return Ok(None);
    }
    Ok(Some(ExpertSettings {
        num_experts: fields.required_size("expert_count")?,
        num_experts_per_token: fields.required_size("expert_used_count")?,
        intermediate_size: fields.required_size("expert_feed_forward_length")?,
        normalises_weights: true,
        sparse_layers: vec![true; num_layers],
    }))
}

/// 1/sqrt(head size), but for Gemma 3 27B (the one of 62 layers), whose published `query_pre_attn_scalar` is
/// hidden size / heads; GGUF files leave it out.
fn attention_scale(family: Family, layers: usize, hidden: usize, heads: usize, head_dim: usize) -> f32 {
    let scalar = match family {
        Family::Gemma3 if layers == 62 => hidden / heads.max(1),
        _ => head_dim,
    };
    1.0 / (scalar as f32).sqrt()
}

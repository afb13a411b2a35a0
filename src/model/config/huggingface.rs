//! The Hugging Face dialect: `config.json`, with `rope_scaling` or `rope_parameters`, nested or not.

mod experts;
mod recurrent;
mod rope;

use serde_json::Value;

use super::gemma4::Gemma4Settings;
use super::{Activation, Family, HeadSource, KvHeads, ModelConfig};
use crate::model::ModelError;
use crate::ops::RopeLayout;

/// Every sixth layer of Gemma 3 and 4 is a full one where the config names no pattern.
const GEMMA_LAYER_PERIOD: usize = 6;

pub(super) struct Fields<'a> {
    object: &'a Value,
    file: &'a str,
}

impl<'a> Fields<'a> {
    pub(super) fn fail<T>(&self, field: &str, reason: impl Into<String>) -> Result<T, ModelError> {
        let (file, field) = (self.file.to_owned(), field.to_owned());
        Err(ModelError::Config { file, field, reason: reason.into() })
    }

    /// The field, where it is there and not null.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn is_null(&self, field: &str) -> bool {
        self.object.get(field).is_some_and(Value::is_null)
    }

    pub(super) fn size(&self, field: &str) -> Result<Option<usize>, ModelError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_u64().and_then(|value| usize::try_from(value).ok()) {
            Some(size) => Ok(Some(size)),
            None => self.fail(field, format!("{value} is not a non-negative integer")),
        }
    }

    pub(super) fn required_size(&self, field: &str) -> Result<usize, ModelError> {
        match self.size(field)? {
            Some(size) => Ok(size),
            None => self.fail(field, "is missing"),
        }
    }

    fn number(&self, field: &str) -> Result<Option<f64>, ModelError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => self.fail(field, format!("{value} is not a number")),
        }
    }

    fn float(&self, field: &str) -> Result<Option<f32>, ModelError> {
        Ok(self.number(field)?.map(|number| number as f32))
    }

    pub(super) fn flag(&self, field: &str) -> Result<Option<bool>, ModelError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(value) => self.fail(field, format!("{value} is not true or false")),
        }
    }

    fn text(&self, field: &str) -> Result<Option<&'a str>, ModelError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => self.fail(field, format!("{value} is not a string")),
        }
    }

    pub(super) fn object(&self, field: &str) -> Option<Fields<'a>> {
        let object = self.get(field).filter(|value| value.is_object())?;
        Some(Fields { object, file: self.file })
    }

    /// Refuses fields that are not `known`.
    pub(super) fn refuse_others(&self, known: &[&str]) -> Result<(), ModelError> {
        let mut fields = self.object.as_object().into_iter().flat_map(|object| object.keys());
        match fields.find(|field| !known.contains(&field.as_str())) {
            Some(other) => {
                self.fail(other, format!("is not supported here (supported: {})", known.join(", ")))
            }
            None => Ok(()),
        }
    }
}

pub(super) fn read(config: &Value, file: &str) -> Result<ModelConfig, ModelError> {
    let outer = Fields { object: config, file };
    let fields = outer.object("text_config").unwrap_or(outer);
    let Some(model_type) = fields.text("model_type")? else {
        return fields.fail("model_type", "is missing");
    };
    let family = Family::from_name(model_type, file)?;
    refuse_what_is_not_built(&fields, family)?;
    let hidden_size = fields.required_size("hidden_size")?;
    let num_heads = fields.required_size("num_attention_heads")?;
    let head_dim = match fields.size("head_dim")? {
        Some(dim) => dim,
        None => hidden_size.checked_div(num_heads).unwrap_or(0),
    };
    let num_layers = fields.required_size("num_hidden_layers")?.min(1 << 20);
    let num_kv_heads = fields.size("num_key_value_heads")?.unwrap_or(num_heads);
    let vocab_size = fields.required_size("vocab_size")?;
    let layer_windows = layer_windows(&fields, family, num_layers)?;
    let heads = KvHeads { kv_heads: num_kv_heads, head_dim };
    let gemma4 = match family {
        Family::Gemma4 => Some(Gemma4Settings::read(&fields, &layer_windows, heads, vocab_size)?),
        _ => None,
    };
    let full_head_dim = gemma4.map_or(head_dim, |gemma4| gemma4.full_heads.head_dim);
    let gemma = matches!(family, Family::Gemma3 | Family::Gemma4);
    let (rope, rope_sliding) = rope::read(&fields, family, full_head_dim, head_dim)?;
    Ok(ModelConfig {
        family,
        vocab_size,
        hidden_size,
        intermediate_size: fields.required_size("intermediate_size")?,
        experts: experts::read(&fields, family, num_layers)?,
        num_heads,
        num_kv_heads,
        head_dim,
        rms_norm_eps: fields.float("rms_norm_eps")?.unwrap_or(1e-6),
        norm_offset: if matches!(family, Family::Gemma3 | Family::Qwen3_5) { 1.0 } else { 0.0 },
        context_length: fields.required_size("max_position_embeddings")?,
        layer_windows,
        rope,
        rope_sliding,
        rope_layout: RopeLayout::HalfRotation,
        recurrent: recurrent::read(&fields, family, num_layers)?,
        // gpt-oss has biases unless its config says otherwise.
        attention_bias: fields.flag("attention_bias")?.unwrap_or(family == Family::GptOss),
        attention_sinks: family == Family::GptOss,
        attention_output_gate: family == Family::Qwen3_5,
        attention_scale: attention_scale(&fields, family, head_dim)?,
        activation: activation(&fields, family)?,
        embedding_scale: gemma.then(|| (hidden_size as f32).sqrt()),
        attention_soft_cap: fields.float("attn_logit_softcapping")?,
        logit_soft_cap: fields.float("final_logit_softcapping")?,
        head: match fields.get("tie_word_embeddings") {
            Some(Value::Bool(false)) => HeadSource::Own,
            Some(Value::Bool(true)) => HeadSource::Embedding,
            _ => HeadSource::WhatThereIs,
        },
        gemma4,
    })
}

/// Settings that change the arithmetic and that no family here has.
fn refuse_what_is_not_built(fields: &Fields<'_>, family: Family) -> Result<(), ModelError> {
    // The biases of a gated projection would alternate as its rows do.
    let gated = (family == Family::Qwen3_5).then_some("attention_bias");
    for field in ["mlp_bias", "use_bidirectional_attention"].into_iter().chain(gated) {
        if fields.get(field).and_then(Value::as_bool) == Some(true) {
            return fields.fail(field, "true is not supported");
        }
    }
    let Some(quantization) = fields.object("quantization_config") else { return Ok(()) };
    match quantization.text("quant_method")? {
        Some("mxfp4") if family == Family::GptOss => Ok(()),
        method => {
            let method = method.unwrap_or("no quant_method");
            fields.fail(
                "quantization_config",
                format!("{method}: only gpt-oss may be quantised here, by mxfp4"),
            )
        }
    }
}

fn attention_scale(fields: &Fields<'_>, family: Family, head_dim: usize) -> Result<f32, ModelError> {
    Ok(match family {
        Family::Gemma3 => 1.0 / fields.float("query_pre_attn_scalar")?.unwrap_or(head_dim as f32).sqrt(),
        Family::Gemma4 => 1.0,
        _ => 1.0 / (head_dim as f32).sqrt(),
    })
}

fn activation(fields: &Fields<'_>, family: Family) -> Result<Activation, ModelError> {
    if family == Family::GptOss {
        let alpha = fields.float("swiglu_alpha")?.unwrap_or(1.702);
        return match fields.float("swiglu_limit")?.unwrap_or(7.0) {
            limit if limit > 0.0 && limit.is_finite() => Ok(Activation::ClampedSwiglu { alpha, limit }),
            limit => fields.fail("swiglu_limit", format!("{limit} is not positive and finite")),
        };
    }
    let field = if fields.get("hidden_activation").is_some() { "hidden_activation" } else { "hidden_act" };
    match fields.text(field)? {
        Some("silu") => Ok(Activation::Silu),
        Some("gelu_pytorch_tanh") => Ok(Activation::GeluTanh),
        None if matches!(family, Family::Gemma3 | Family::Gemma4) => Ok(Activation::GeluTanh),
        None => Ok(Activation::Silu),
        Some(other) => fields.fail(field, format!("{other:?} is not supported")),
    }
}

fn layer_windows(
    fields: &Fields<'_>,
    family: Family,
    num_layers: usize,
) -> Result<Vec<Option<u32>>, ModelError> {
    let window = fields.size("sliding_window")?.map(|window| u32::try_from(window).unwrap_or(u32::MAX));
    if let Some(types) = fields.get("layer_types").and_then(Value::as_array) {
        if types.len() != num_layers {
            let reason = format!("{} entries for {num_layers} layers", types.len());
            return fields.fail("layer_types", reason);
        }
        return types
            .iter()
            .map(|kind| match (kind.as_str(), window) {
                (Some("full_attention"), _) => Ok(None),
                (Some("sliding_attention"), Some(window)) => Ok(Some(window)),
                (Some("linear_attention"), _) if family == Family::Qwen3_5 => Ok(None),
                (Some("sliding_attention"), None) => fields.fail("sliding_window", "is missing"),
                _ => fields.fail("layer_types", format!("{kind} is not supported")),
            })
            .collect();
    }
    if family == Family::GptOss {
        let Some(window) = window else { return fields.fail("sliding_window", "is missing") };
        return Ok((0..num_layers).map(|layer| layer.is_multiple_of(2).then_some(window)).collect());
    }
    if !matches!(family, Family::Gemma3 | Family::Gemma4) {
        if fields.get("use_sliding_window").and_then(Value::as_bool) == Some(true) {
            return fields.fail("use_sliding_window", "true without layer_types is not supported");
        }
        return Ok(vec![None; num_layers]);
    }
    let period = fields.size("sliding_window_pattern")?.or(fields.size("_sliding_window_pattern")?);
    let period = period.unwrap_or(GEMMA_LAYER_PERIOD);
    let Some(window) = window else { return fields.fail("sliding_window", "is missing") };
    // Gemma 4's last layer is a full one wherever the pattern ends.
    let is_last = |layer: usize| family == Family::Gemma4 && layer + 1 == num_layers;
    let slides = |layer: usize| !(layer + 1).is_multiple_of(period) && !is_last(layer);
    Ok((0..num_layers).map(|layer| slides(layer).then_some(window)).collect())
}

//! The Hugging Face dialect: `config.json`, with `rope_scaling` or `rope_parameters`, nested or not.

use serde_json::Value;

use super::{Activation, Family, ModelConfig, RecurrentSettings, RopeScaling, RopeSettings};
use crate::model::ModelError;
use crate::ops::{RecurrentShape, RopeLayout};

/// Every sixth layer of Gemma 3 is a full one where the config names no pattern.
const GEMMA3_LAYER_PERIOD: usize = 6;
/// Likewise every fourth of Qwen3.5, whose heads rotate by a quarter unless the config says another part.
const QWEN3_5_LAYER_PERIOD: usize = 4;
const QWEN3_5_ROTARY_FACTOR: f32 = 0.25;

struct Fields<'a> {
    object: &'a Value,
    file: &'a str,
}

impl<'a> Fields<'a> {
    fn fail<T>(&self, field: &str, reason: impl Into<String>) -> Result<T, ModelError> {
        let (file, field) = (self.file.to_owned(), field.to_owned());
        Err(ModelError::Config { file, field, reason: reason.into() })
    }

    /// The field, where it is there and not null.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    fn size(&self, field: &str) -> Result<Option<usize>, ModelError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_u64().and_then(|value| usize::try_from(value).ok()) {
            Some(size) => Ok(Some(size)),
            None => self.fail(field, format!("{value} is not a non-negative integer")),
        }
    }

    fn required_size(&self, field: &str) -> Result<usize, ModelError> {
        match self.size(field)? {
            Some(size) => Ok(size),
            None => self.fail(field, "is missing"),
        }
    }

    fn float(&self, field: &str) -> Result<Option<f32>, ModelError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_f64() {
            Some(number) => Ok(Some(number as f32)),
            None => self.fail(field, format!("{value} is not a number")),
        }
    }

    fn text(&self, field: &str) -> Result<Option<&'a str>, ModelError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => self.fail(field, format!("{value} is not a string")),
        }
    }

    fn object(&self, field: &str) -> Option<Fields<'a>> {
        let object = self.get(field).filter(|value| value.is_object())?;
        Some(Fields { object, file: self.file })
    }
}

pub(super) fn read(config: &Value, file: &str) -> Result<ModelConfig, ModelError> {
    let outer = Fields { object: config, file };
    let fields = outer.object("text_config").unwrap_or(outer);
    let Some(model_type) = fields.text("model_type")? else {
        return fields.fail("model_type", "is missing");
    };
    let family = Family::from_name(model_type, file)?;
    refuse_what_is_not_built(&fields)?;
    let hidden_size = fields.required_size("hidden_size")?;
    let num_heads = fields.required_size("num_attention_heads")?;
    let head_dim = match fields.size("head_dim")? {
        Some(dim) => dim,
        None => hidden_size.checked_div(num_heads).unwrap_or(0),
    };
    let num_layers = fields.required_size("num_hidden_layers")?.min(1 << 20);
    let gemma = family == Family::Gemma3;
    let (rope, rope_sliding) = ropes(&fields, family, rotary_dim(&fields, family, head_dim)?)?;
    let scalar = fields.float("query_pre_attn_scalar")?.filter(|_| gemma);
    Ok(ModelConfig {
        family,
        vocab_size: fields.required_size("vocab_size")?,
        hidden_size,
        intermediate_size: fields.required_size("intermediate_size")?,
        num_heads,
        num_kv_heads: fields.size("num_key_value_heads")?.unwrap_or(num_heads),
        head_dim,
        rms_norm_eps: fields.float("rms_norm_eps")?.unwrap_or(1e-6),
        norm_offset: if gemma || family == Family::Qwen3_5 { 1.0 } else { 0.0 },
        context_length: fields.required_size("max_position_embeddings")?,
        layer_windows: layer_windows(&fields, family, num_layers)?,
        rope,
        rope_sliding,
        rope_layout: RopeLayout::HalfRotation,
        recurrent: recurrent(&fields, family, num_layers)?,
        attention_output_gate: family == Family::Qwen3_5,
        attention_scale: 1.0 / scalar.unwrap_or(head_dim as f32).sqrt(),
        activation: activation(&fields, gemma)?,
        embedding_scale: gemma.then(|| (hidden_size as f32).sqrt()),
        attention_soft_cap: fields.float("attn_logit_softcapping")?,
        logit_soft_cap: fields.float("final_logit_softcapping")?,
    })
}

/// Settings that change the arithmetic and that no family here has.
fn refuse_what_is_not_built(fields: &Fields<'_>) -> Result<(), ModelError> {
    for field in ["attention_bias", "mlp_bias", "use_bidirectional_attention"] {
        if fields.get(field).and_then(Value::as_bool) == Some(true) {
            return fields.fail(field, "true is not supported");
        }
    }
    if fields.object("quantization_config").is_some() {
        return fields.fail("quantization_config", "quantised HF checkpoints are not supported");
    }
    Ok(())
}

fn activation(fields: &Fields<'_>, gemma: bool) -> Result<Activation, ModelError> {
    let field = if fields.get("hidden_activation").is_some() { "hidden_activation" } else { "hidden_act" };
    match fields.text(field)? {
        Some("silu") => Ok(Activation::Silu),
        Some("gelu_pytorch_tanh") => Ok(Activation::GeluTanh),
        None if gemma => Ok(Activation::GeluTanh),
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
    if family != Family::Gemma3 {
        if fields.get("use_sliding_window").and_then(Value::as_bool) == Some(true) {
            return fields.fail("use_sliding_window", "true without layer_types is not supported");
        }
        return Ok(vec![None; num_layers]);
    }
    let period = fields.size("sliding_window_pattern")?.or(fields.size("_sliding_window_pattern")?);
    let period = period.unwrap_or(GEMMA3_LAYER_PERIOD);
    let Some(window) = window else { return fields.fail("sliding_window", "is missing") };
    Ok((0..num_layers).map(|layer| (!(layer + 1).is_multiple_of(period)).then_some(window)).collect())
}

/// The layers of linear attention, and their shape.
fn recurrent(
    fields: &Fields<'_>,
    family: Family,
    num_layers: usize,
) -> Result<Option<RecurrentSettings>, ModelError> {
    if family != Family::Qwen3_5 {
        return Ok(None);
    }
    let layers = match fields.get("layer_types").and_then(Value::as_array) {
        Some(types) => types.iter().map(|kind| kind.as_str() == Some("linear_attention")).collect(),
        None => {
            let period = fields.size("full_attention_interval")?.unwrap_or(QWEN3_5_LAYER_PERIOD);
            (0..num_layers).map(|layer| !(layer + 1).is_multiple_of(period)).collect()
        }
    };
    let shape = RecurrentShape {
        key_heads: fields.required_size("linear_num_key_heads")?,
        value_heads: fields.required_size("linear_num_value_heads")?,
        key_dim: fields.required_size("linear_key_head_dim")?,
        value_dim: fields.required_size("linear_value_head_dim")?,
        conv_kernel: fields.size("linear_conv_kernel_dim")?.unwrap_or(4),
    };
    Ok(Some(RecurrentSettings { shape, layers }))
}

/// Elements of a head that rotate.
fn rotary_dim(fields: &Fields<'_>, family: Family, head_dim: usize) -> Result<usize, ModelError> {
    if family != Family::Qwen3_5 {
        return Ok(head_dim);
    }
    let nested = ["rope_parameters", "rope_scaling"].map(|name| fields.object(name));
    let mut factor = fields.float("partial_rotary_factor")?;
    for parameters in nested.into_iter().flatten() {
        factor = parameters.float("partial_rotary_factor")?.or(factor);
    }
    Ok((head_dim as f32 * factor.unwrap_or(QWEN3_5_ROTARY_FACTOR)) as usize)
}

/// The rotary settings of full and of sliding layers.
fn ropes(
    fields: &Fields<'_>,
    family: Family,
    rotary_dim: usize,
) -> Result<(RopeSettings, RopeSettings), ModelError> {
    if let Some(parameters) = fields.object("rope_parameters") {
        let full = parameters.object("full_attention");
        if let (Some(full), Some(sliding)) = (full, parameters.object("sliding_attention")) {
            return Ok((rope(&full, None, rotary_dim)?, rope(&sliding, None, rotary_dim)?));
        }
        let settings = rope(&parameters, fields.float("rope_theta")?, rotary_dim)?;
        return Ok((settings, settings));
    }
    let theta = fields.float("rope_theta")?;
    let full = match fields.object("rope_scaling") {
        Some(scaling) => rope(&scaling, theta, rotary_dim)?,
        None => RopeSettings { theta: theta.unwrap_or(10_000.0), rotary_dim, scaling: RopeScaling::None },
    };
    if family != Family::Gemma3 {
        return Ok((full, full));
    }
    let theta = fields.float("rope_local_base_freq")?.unwrap_or(10_000.0);
    let full =
        if fields.get("rope_theta").is_some() { full } else { RopeSettings { theta: 1_000_000.0, ..full } };
    Ok((full, RopeSettings { theta, rotary_dim, scaling: RopeScaling::None }))
}

fn rope(fields: &Fields<'_>, theta: Option<f32>, rotary_dim: usize) -> Result<RopeSettings, ModelError> {
    let kind = fields.text("rope_type")?.or(fields.text("type")?).unwrap_or("default");
    let required = |field: &str| match fields.float(field)? {
        Some(value) if value > 0.0 => Ok(value),
        Some(value) => fields.fail(field, format!("{value} is not positive")),
        None => fields.fail(field, format!("is missing for rope type {kind:?}")),
    };
    let scaling = match kind {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: required("factor")? },
        "llama3" => RopeScaling::Llama3 {
            factor: required("factor")?,
            low_frequency_factor: required("low_freq_factor")?,
            high_frequency_factor: required("high_freq_factor")?,
            original_context: required("original_max_position_embeddings")?,
        },
        other => {
            let reason = format!("{other:?} is not supported (supported: default, linear, llama3)");
            return fields.fail("rope_type", reason);
        }
    };
    let theta = fields.float("rope_theta")?.or(theta).unwrap_or(10_000.0);
    Ok(RopeSettings { theta, rotary_dim, scaling })
}

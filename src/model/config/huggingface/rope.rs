//! Rotary embeddings in the Hugging Face dialect.

use super::Fields;
use crate::model::ModelError;
use crate::model::config::{Family, RopeScaling, RopeSettings, Yarn, gemma4};

/// The part of a head of Qwen3.5 that rotates unless the config says another.
const QWEN3_5_ROTARY_FACTOR: f32 = 0.25;

/// The rotary settings of full and of sliding layers.
pub(super) fn read(
    fields: &Fields<'_>,
    family: Family,
    full_head_dim: usize,
    head_dim: usize,
) -> Result<(RopeSettings, RopeSettings), ModelError> {
    let full_rotary_dim = rotary_dim(fields, family, full_head_dim)?;
    let rotary_dim = rotary_dim(fields, family, head_dim)?;
    if let Some(parameters) = fields.object("rope_parameters") {
        let full = parameters.object("full_attention");
        if let (Some(full), Some(sliding)) = (full, parameters.object("sliding_attention")) {
            return Ok((rope(&full, None, full_rotary_dim)?, rope(&sliding, None, rotary_dim)?));
        }
        let settings = rope(&parameters, fields.float("rope_theta")?, rotary_dim)?;
        if family != Family::Gemma4 {
            return Ok((settings, settings));
        }
        return fields.fail("rope_parameters", "must have full_attention and sliding_attention");
    }
    if family == Family::Gemma4 {
        return Ok(gemma4::default_ropes(full_head_dim, head_dim));
    }
    let theta = fields.float("rope_theta")?;
    let full = match fields.object("rope_scaling") {
        Some(scaling) => rope(&scaling, theta, rotary_dim)?,
        // Its published models stretch their context, and are not themselves without.
        None if family == Family::GptOss => return fields.fail("rope_parameters", "is missing"),
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

fn yarn(fields: &Fields<'_>, factor: f32, original_context: f32) -> Result<Yarn, ModelError> {
    // A zero stands for an absent value here, as it does for the models' own code.
    let positive = |field: &str| fields.float(field).map(|value| value.filter(|&value| value != 0.0));
    let attention_factor =
        match (fields.float("attention_factor")?, positive("mscale")?, positive("mscale_all_dim")?) {
            (Some(given), _, _) => f64::from(given),
            (None, Some(mscale), Some(all_dim)) => {
                Yarn::default_attention_factor(factor, mscale)
                    / Yarn::default_attention_factor(factor, all_dim)
            }
            (None, _, _) => Yarn::default_attention_factor(factor, 1.0),
        };
    Ok(Yarn {
        factor,
        original_context,
        beta_fast: positive("beta_fast")?.unwrap_or(32.0),
        beta_slow: positive("beta_slow")?.unwrap_or(1.0),
        truncate: fields.flag("truncate")?.unwrap_or(true),
        attention_factor: attention_factor as f32,
    })
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
        "yarn" => RopeScaling::Yarn(yarn(
            fields,
            required("factor")?,
            required("original_max_position_embeddings")?,
        )?),
        "llama3" => RopeScaling::Llama3 {
            factor: required("factor")?,
            low_frequency_factor: required("low_freq_factor")?,
            high_frequency_factor: required("high_freq_factor")?,
            original_context: required("original_max_position_embeddings")?,
        },
        "proportional" => {
            let proportion = fields.number("partial_rotary_factor")?.unwrap_or(1.0);
            if !(0.0..=1.0).contains(&proportion) {
                return fields.fail("partial_rotary_factor", format!("{proportion} is not between 0 and 1"));
            }
            let factor = if fields.get("factor").is_some() { required("factor")? } else { 1.0 };
            let rotating_pairs = (proportion * rotary_dim as f64 / 2.0) as usize;
            RopeScaling::Proportional { rotating_pairs, factor }
        }
        other => {
            let supported = "default, linear, llama3, proportional, yarn";
            let reason = format!("{other:?} is not supported (supported: {supported})");
            return fields.fail("rope_type", reason);
        }
    };
    let theta = fields.float("rope_theta")?.or(theta).unwrap_or(10_000.0);
    Ok(RopeSettings { theta, rotary_dim, scaling })
}

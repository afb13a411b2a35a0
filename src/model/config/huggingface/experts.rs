//! Experts in the Hugging Face dialect.

use std::collections::HashSet;

use serde_json::Value;

use super::Fields;
use crate::model::ModelError;
use crate::model::config::{ExpertSettings, Family};

/// The mixture of experts, of a family that has one.
pub(super) fn read(
    fields: &Fields<'_>,
    family: Family,
    num_layers: usize,
) -> Result<Option<ExpertSettings>, ModelError> {
    match family {
        Family::GptOss => gpt_oss(fields, num_layers).map(Some),
        Family::Qwen3Moe => qwen3_moe(fields, num_layers).map(Some),
        _ => Ok(None),
    }
}

fn qwen3_moe(fields: &Fields<'_>, num_layers: usize) -> Result<ExpertSettings, ModelError> {
    let step = fields.size("decoder_sparse_step")?.unwrap_or(1);
    if step == 0 {
        return fields.fail("decoder_sparse_step", "0 is not a number of layers");
    }
    let dense_layers = match fields.get("mlp_only_layers").map(|layers| (layers, layers.as_array())) {
        None => &[][..],
        Some((_, Some(layers))) if layers.iter().all(Value::is_u64) => layers,
        Some((layers, _)) => {
            return fields.fail("mlp_only_layers", format!("{layers} is not a list of layers"));
        }
    };
    let dense_layers: HashSet<u64> = dense_layers.iter().filter_map(Value::as_u64).collect();
    let is_dense = |layer: usize| dense_layers.contains(&(layer as u64));
    Ok(ExpertSettings {
        num_experts: num_experts(fields)?,
        num_experts_per_token: fields.required_size("num_experts_per_tok")?,
        intermediate_size: fields.required_size("moe_intermediate_size")?,
        normalises_weights: fields.flag("norm_topk_prob")?.unwrap_or(false),
        sparse_layers: (0..num_layers)
            .map(|layer| (layer + 1).is_multiple_of(step) && !is_dense(layer))
            .collect(),
    })
}

/// Published configs of Qwen3-MoE have the first name, those of gpt-oss and what transformers 5 writes the second.
fn num_experts(fields: &Fields<'_>) -> Result<usize, ModelError> {
    match fields.size("num_experts")? {
        Some(experts) => Ok(experts),
        None => fields.required_size("num_local_experts"),
    }
}

fn gpt_oss(fields: &Fields<'_>, num_layers: usize) -> Result<ExpertSettings, ModelError> {
    Ok(ExpertSettings {
        num_experts: num_experts(fields)?,
        num_experts_per_token: fields.required_size("num_experts_per_tok")?,
        intermediate_size: fields.required_size("intermediate_size")?,
        normalises_weights: true,
        sparse_layers: vec![true; num_layers],
    })
}

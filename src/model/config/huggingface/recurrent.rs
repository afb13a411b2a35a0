//! Recurrent layers in the Hugging Face dialect.

use serde_json::Value;

use super::Fields;
use crate::model::ModelError;
use crate::model::config::{Family, RecurrentSettings};
use crate::ops::RecurrentShape;

/// Every fourth layer of Qwen3.5 is a full one where the config names no pattern.
const QWEN3_5_LAYER_PERIOD: usize = 4;

/// The layers of linear attention, and their shape.
pub(super) fn read(
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
        value_heads_in_turn: false,
    };
    Ok(Some(RecurrentSettings { shape, layers, holds_decay_rates: false }))
}

//! A model's config from its manifest: what its memory is planned by.

use serde_json::{Map, Value, json};

use super::{Family, ModelConfig, huggingface};
use crate::model::ModelError;
use crate::weights::manifest::{ModelManifest, Shapes};

/// No model has more experts over all its layers; planning goes through them one by one.
const MOST_LAYERS_AND_EXPERTS: u64 = 1 << 20;

impl ModelConfig {
    /// The config that a model's manifest tells of: shapes and layers are those of the published model, and every size that
    /// follows from them. Of what changes no size (epsilons, most rotary settings) it has the family's defaults, so that it
    /// is for planning and not for running.
    ///
    /// # Errors
    /// [`ModelError::UnsupportedArchitecture`] for a family that is no decoder, [`ModelError::Config`] naming the field of
    /// the manifest that is missing, or that cannot be.
    pub fn from_manifest(manifest: &ModelManifest) -> Result<Self, ModelError> {
        let file = format!("the manifest of {}", manifest.name);
        let family = Family::from_name(&manifest.family, &file)?;
        if let Some(field) = missing(family, &manifest.shapes) {
            let reason = "is missing: no public source of it was read".to_owned();
            return Err(ModelError::Config { file, field: format!("shapes.{field}"), reason });
        }
        let shapes = &manifest.shapes;
        let parts = shapes.layers.unwrap_or(0).saturating_mul(shapes.experts.unwrap_or(1));
        if parts > MOST_LAYERS_AND_EXPERTS {
            let reason =
                format!("{parts} layers times experts: {MOST_LAYERS_AND_EXPERTS} at most are planned");
            return Err(ModelError::Config { file, field: "shapes.layers".to_owned(), reason });
        }
        let config = huggingface::read(&published(family, manifest), &file)?;
        config.check(&file)?;
        Ok(config)
    }
}

/// The first field without which the family's sizes are not known.
fn missing(family: Family, shapes: &Shapes) -> Option<&'static str> {
    let everywhere = [
        ("layers", shapes.layers),
        ("hidden", shapes.hidden),
        ("heads", shapes.heads),
        ("kv_heads", shapes.kv_heads),
        ("head_dim", shapes.head_dim),
        ("vocab", shapes.vocab),
        ("tied_embeddings", shapes.tied_embeddings.map(u64::from)),
    ];
    let intermediate = [("intermediate", shapes.intermediate)];
    let sliding = [("sliding_window", shapes.sliding_window)];
    let period = [("sliding_period", shapes.sliding_period)];
    let full = [("full_head_dim", shapes.full_head_dim)];
    let experts = [
        ("experts", shapes.experts),
        ("experts_per_token", shapes.experts_per_token),
        ("expert_intermediate", shapes.expert_intermediate),
    ];
    let yarn = [("yarn_factor", shapes.yarn_factor), ("yarn_original_context", shapes.yarn_original_context)];
    let linear = [
        ("full_attention_interval", shapes.full_attention_interval),
        ("linear_key_heads", shapes.linear_key_heads),
        ("linear_value_heads", shapes.linear_value_heads),
        ("linear_head_dim", shapes.linear_head_dim),
        ("linear_conv_kernel", shapes.linear_conv_kernel),
    ];
    let own: Vec<&[(&str, Option<u64>)]> = match family {
        Family::Llama | Family::Qwen3 => vec![&intermediate],
        Family::Qwen3Moe => vec![&intermediate, &experts],
        Family::Qwen3_5 => vec![&intermediate, &linear],
        Family::GptOss => vec![&sliding, &experts, &yarn],
        Family::Gemma3 => vec![&intermediate, &sliding, &period],
        Family::Gemma4 => vec![&intermediate, &sliding, &period, &full],
    };
    let mut fields = everywhere.iter().chain(own.into_iter().flatten());
    fields.find(|(_, value)| value.is_none()).map(|(field, _)| *field)
}

/// The config as its publisher would write it, as far as sizes depend on it.
fn published(family: Family, manifest: &ModelManifest) -> Value {
    let shapes = &manifest.shapes;
    let intermediate = shapes.intermediate.or(shapes.expert_intermediate);
    let fields = [
        ("hidden_size", shapes.hidden),
        ("num_hidden_layers", shapes.layers),
        ("num_attention_heads", shapes.heads),
        ("num_key_value_heads", shapes.kv_heads),
        ("head_dim", shapes.head_dim),
        ("vocab_size", shapes.vocab),
        ("intermediate_size", intermediate),
        ("max_position_embeddings", Some(manifest.context_length)),
        ("sliding_window", shapes.sliding_window),
        ("sliding_window_pattern", shapes.sliding_period),
        ("num_experts", shapes.experts),
        ("num_experts_per_tok", shapes.experts_per_token),
        ("moe_intermediate_size", shapes.expert_intermediate),
        ("full_attention_interval", shapes.full_attention_interval),
        ("linear_num_key_heads", shapes.linear_key_heads),
        ("linear_num_value_heads", shapes.linear_value_heads),
        ("linear_key_head_dim", shapes.linear_head_dim),
        ("linear_value_head_dim", shapes.linear_head_dim),
        ("linear_conv_kernel_dim", shapes.linear_conv_kernel),
    ];
    let mut config: Map<String, Value> =
        fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), json!(value?)))).collect();
    config.insert("model_type".to_owned(), json!(manifest.family));
    config.insert("tie_word_embeddings".to_owned(), json!(shapes.tied_embeddings));
    match family {
        Family::Gemma4 => config.extend(gemma4(shapes)),
        Family::GptOss => {
            let yarn = json!({
                "rope_type": "yarn",
                "factor": shapes.yarn_factor,
                "original_max_position_embeddings": shapes.yarn_original_context,
            });
            config.insert("rope_scaling".to_owned(), yarn);
        }
        _ => {}
    }
    Value::Object(config)
}

fn gemma4(shapes: &Shapes) -> [(String, Value); 6] {
    [
        ("global_head_dim", json!(shapes.full_head_dim)),
        ("num_global_key_value_heads", json!(shapes.full_kv_heads)),
        ("attention_k_eq_v", json!(shapes.full_keys_are_values.unwrap_or(false))),
        ("num_kv_shared_layers", json!(shapes.kv_shared_layers.unwrap_or(0))),
        ("use_double_wide_mlp", json!(shapes.shared_layers_are_double_wide.unwrap_or(false))),
        ("hidden_size_per_layer_input", json!(shapes.per_layer_input.unwrap_or(0))),
    ]
    .map(|(field, value)| (field.to_owned(), value))
}

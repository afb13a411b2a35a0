//! [`Gemma4Settings`]: what Gemma 4 has beside the fields of every family.

use serde_json::Value;

use super::huggingface::Fields;
use super::{KvHeads, ModelConfig, RopeScaling, RopeSettings};
use crate::model::ModelError;

/// Head size of full layers where a config does not say it.
const DEFAULT_FULL_HEAD_DIM: usize = 512;

/// A second embedding of each token, of which every layer sees its own part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerLayerInputs {
    /// Rows of the table.
    pub vocab_size: usize,
    /// Elements a layer.
    pub size: usize,
}

/// What Gemma 4 has beside the fields of every family. There, `num_kv_heads` and `head_dim` are those of the sliding
/// layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gemma4Settings {
    /// Heads of full layers.
    pub full_heads: KvHeads,
    /// Full layers have no value projection: their values are their projected keys, before norm and rotation.
    pub full_keys_are_values: bool,
    /// The last layers, which read the keys and values of the last layer of their kind before them.
    pub num_kv_shared_layers: usize,
    /// Those layers' feed-forward blocks are twice as wide.
    pub shared_mlp_is_double_wide: bool,
    /// The per-layer embedding, in the models that have one.
    pub per_layer_inputs: Option<PerLayerInputs>,
}

impl Gemma4Settings {
    /// Reads them from `config.json`; `sliding_heads` are those of sliding layers.
    ///
    /// # Source
    /// `Gemma4TextConfig` of HF transformers 5.24, read 2026-11.
    pub(super) fn read(
        fields: &Fields<'_>,
        layer_windows: &[Option<u32>],
        sliding_heads: KvHeads,
        vocab_size: usize,
    ) -> Result<Self, ModelError> {
        if fields.flag("enable_moe_block")? == Some(true) {
            return fields.fail(
                "enable_moe_block",
                "true is not supported: the mixture of experts of Gemma 4 is not built",
            );
        }
        // "vision" is about image tokens alone; text is causal then too.
        match fields.get("use_bidirectional_attention") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::String(what)) if what == "vision" => {}
            Some(other) => {
                return fields.fail("use_bidirectional_attention", format!("{other} is not supported"));
            }
        }
        let full_keys_are_values = fields.flag("attention_k_eq_v")?.unwrap_or(false);
        let full_heads = match fields.object("per_layer_config") {
            Some(layers) => full_heads_by_layer(&layers, layer_windows, sliding_heads)?,
            None => {
                let kv_heads = fields.size("num_global_key_value_heads")?.filter(|_| full_keys_are_values);
                KvHeads {
                    kv_heads: kv_heads.unwrap_or(sliding_heads.kv_heads),
                    head_dim: fields.size("global_head_dim")?.unwrap_or(DEFAULT_FULL_HEAD_DIM),
                }
            }
        };
        // Models without the second embedding say 0, or null in older files.
        let per_layer_size = match fields.is_null("hidden_size_per_layer_input") {
            true => 0,
            false => fields.required_size("hidden_size_per_layer_input")?,
        };
        Ok(Self {
            full_heads,
            full_keys_are_values,
            num_kv_shared_layers: fields.size("num_kv_shared_layers")?.unwrap_or(0),
            shared_mlp_is_double_wide: fields.flag("use_double_wide_mlp")?.unwrap_or(false),
            per_layer_inputs: match per_layer_size {
                0 => None,
                size => Some(PerLayerInputs {
                    vocab_size: fields.size("vocab_size_per_layer_input")?.unwrap_or(vocab_size),
                    size,
                }),
            },
        })
    }

    pub(super) fn check(&self, config: &ModelConfig, file: &str) -> Result<(), ModelError> {
        let fail = |field: &str, reason: String| {
            Err(ModelError::Config { file: file.to_owned(), field: field.to_owned(), reason })
        };
        let KvHeads { kv_heads, head_dim } = self.full_heads;
        config.check_heads(kv_heads, head_dim, ["num_global_key_value_heads", "global_head_dim"], file)?;
        let layers = config.num_layers();
        let (own, shared) = config.layer_windows.split_at(config.num_own_kv_layers());
        for slides in [false, true] {
            let has = |layers: &[Option<u32>]| layers.iter().any(|window| window.is_some() == slides);
            if has(shared) && !has(own) {
                let kind = if slides { "sliding" } else { "full" };
                let reason = format!(
                    "{} of {layers} layers: no {kind} layer before them has keys and values to share",
                    self.num_kv_shared_layers
                );
                return fail("num_kv_shared_layers", reason);
            }
        }
        if config.layer_windows.last().is_some_and(Option::is_some) {
            return fail("layer_types", format!("layer {} slides: the last one must be full", layers - 1));
        }
        match self.per_layer_inputs {
            Some(inputs) if inputs.size > 1 << 20 || inputs.size * layers > 1 << 30 => {
                let reason = format!("{} is not a size a model can have", inputs.size);
                fail("hidden_size_per_layer_input", reason)
            }
            Some(inputs) if inputs.vocab_size < config.vocab_size => {
                let reason = format!("{} is below vocab_size {}", inputs.vocab_size, config.vocab_size);
                fail("vocab_size_per_layer_input", reason)
            }
            _ => Ok(()),
        }
    }
}

/// Reads the dialect of transformers 5.24 and later: by layer number, what differs from the other fields. All full
/// layers must be alike there, and sliding layers be as the other fields say.
fn full_heads_by_layer(
    layers: &Fields<'_>,
    layer_windows: &[Option<u32>],
    sliding_heads: KvHeads,
) -> Result<KvHeads, ModelError> {
    let mut full_heads = None;
    for (layer, window) in layer_windows.iter().enumerate() {
        let mut heads = sliding_heads;
        if let Some(layer) = layers.object(&layer.to_string()) {
            layer.refuse_others(&["head_dim", "num_key_value_heads"])?;
            heads.kv_heads = layer.size("num_key_value_heads")?.unwrap_or(heads.kv_heads);
            heads.head_dim = layer.size("head_dim")?.unwrap_or(heads.head_dim);
        }
        let expected = match window {
            Some(_) => sliding_heads,
            None => *full_heads.get_or_insert(heads),
        };
        if heads != expected {
            let reason = format!("layer {layer} has {heads:?}, where layers like it have {expected:?}");
            return layers.fail("per_layer_config", reason);
        }
    }
    Ok(full_heads.unwrap_or(sliding_heads))
}

/// The rotary settings of full and of sliding layers where a config says nothing.
pub(super) fn default_ropes(full_head_dim: usize, head_dim: usize) -> (RopeSettings, RopeSettings) {
    let scaling = RopeScaling::Proportional { rotating_pairs: full_head_dim / 8, factor: 1.0 };
    let full = RopeSettings { theta: 1_000_000.0, rotary_dim: full_head_dim, scaling };
    (full, RopeSettings { theta: 10_000.0, rotary_dim: head_dim, scaling: RopeScaling::None })
}

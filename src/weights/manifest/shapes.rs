//! [`Shapes`]: a model's dimensions.
use serde::{Deserialize, Serialize};

/// Dimensions of the text model; a field that could not be confirmed is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shapes {
    /// Transformer layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<u64>,
    /// Width of the residual stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u64>,
    /// Query heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u64>,
    /// Key and value heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u64>,
    /// Elements a head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<u64>,
    /// Rows of the embedding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocab: Option<u64>,
    /// Tokens that a sliding layer sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sliding_window: Option<u64>,
    /// Key and value heads of full layers, where they differ from those of sliding layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_kv_heads: Option<u64>,
    /// Elements a head of full layers, where they differ from those of sliding layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_head_dim: Option<u64>,
    /// The last layers, which have no keys and values of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_shared_layers: Option<u64>,
    /// Elements of the per-layer embedding that each layer sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_layer_input: Option<u64>,
    /// One layer of so many has full attention, the others a recurrent state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_attention_interval: Option<u64>,
    /// Query and key heads of a recurrent layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_key_heads: Option<u64>,
    /// Value heads of a recurrent layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_value_heads: Option<u64>,
    /// Elements a head of a recurrent layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_head_dim: Option<u64>,
    /// Width of the feed-forward block; where all layers have experts, of one that none of them uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intermediate: Option<u64>,
    /// Experts a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<u64>,
    /// Experts that each token goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts_per_token: Option<u64>,
    /// Width of one expert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expert_intermediate: Option<u64>,
    /// Whether the embedding is the vocabulary projection too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tied_embeddings: Option<bool>,
    /// One layer of so many is a full one, the others slide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sliding_period: Option<u64>,
    /// Full layers have no value projection: their values are their keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_keys_are_values: Option<bool>,
    /// The feed-forward blocks of the layers without keys and values of their own are twice as wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_layers_are_double_wide: Option<bool>,
    /// Tokens that the convolution of a recurrent layer sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_conv_kernel: Option<u64>,
    /// Factor by which YaRN stretches the context the model was pretrained for, in models published so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yarn_factor: Option<u64>,
    /// The context before that, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yarn_original_context: Option<u64>,
}

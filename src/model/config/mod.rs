//! [`ModelConfig`]: shapes and settings, read from either dialect.

mod gguf;
mod huggingface;
mod recurrent;
mod rope;

pub use recurrent::RecurrentSettings;
pub use rope::{RopeScaling, RopeSettings};

use super::ModelError;
use crate::kv::LayerKv;
use crate::ops::RopeLayout;
use crate::weights::{ModelMetadata, Weights};

/// A model family longwick has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Llama and what shares its layers (SmolLM2).
    Llama,
    /// Qwen3, dense.
    Qwen3,
    /// Qwen3.5, dense, text.
    Qwen3_5,
    /// Gemma 3, text.
    Gemma3,
}

impl Family {
    /// Every family, with the name HF configs (`model_type`) and GGUF files (`general.architecture`) give it.
    pub const ALL: [(Family, &'static [&'static str]); 4] = [
        (Family::Llama, &["llama"]),
        (Family::Qwen3, &["qwen3"]),
        (Family::Qwen3_5, &["qwen3_5_text", "qwen3_5"]),
        (Family::Gemma3, &["gemma3_text", "gemma3"]),
    ];

    fn from_name(name: &str, file: &str) -> Result<Self, ModelError> {
        let found = Self::ALL.iter().find(|(_, names)| names.contains(&name));
        found.map(|&(family, _)| family).ok_or_else(|| ModelError::UnsupportedArchitecture {
            file: file.to_owned(),
            architecture: name.to_owned(),
            supported: Self::ALL.iter().map(|(_, names)| names[0]).collect::<Vec<_>>().join(", "),
        })
    }
}

/// The gate's non-linearity in the feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x * sigmoid(x).
    Silu,
    /// The tanh approximation of GELU.
    GeluTanh,
}

/// Shapes and settings of a decoder.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// The family.
    pub family: Family,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// Query heads.
    pub num_heads: usize,
    /// Key and value heads.
    pub num_kv_heads: usize,
    /// Elements a head.
    pub head_dim: usize,
    /// Epsilon of every RMS norm.
    pub rms_norm_eps: f32,
    /// Added to every norm weight on loading: 1 where checkpoints store `weight - 1` (Gemma in HF files).
    pub norm_offset: f32,
    /// Most positions the model was made for.
    pub context_length: usize,
    /// The window of each layer; `None` for full attention.
    pub layer_windows: Vec<Option<u32>>,
    /// Rotary embedding of full-attention layers.
    pub rope: RopeSettings,
    /// Rotary embedding of sliding layers.
    pub rope_sliding: RopeSettings,
    /// How rotary pairs lie in a head.
    pub rope_layout: RopeLayout,
    /// Layers that keep a state in the place of keys and values.
    pub recurrent: Option<RecurrentSettings>,
    /// Whether attention's output is multiplied by the logistic function of a gate, which `q_proj` computes too: each
    /// query head's rows are followed by its gate's.
    pub attention_output_gate: bool,
    /// Multiplies q.k.
    pub attention_scale: f32,
    /// The gate's non-linearity.
    pub activation: Activation,
    /// Multiplies embeddings.
    pub embedding_scale: Option<f32>,
    /// Soft cap on attention scores.
    pub attention_soft_cap: Option<f32>,
    /// Soft cap on logits.
    pub logit_soft_cap: Option<f32>,
}

impl ModelConfig {
    /// Reads the config of opened weights.
    ///
    /// # Errors
    /// [`ModelError::UnsupportedArchitecture`], or [`ModelError::Config`] naming file and field.
    pub fn from_weights(weights: &Weights) -> Result<Self, ModelError> {
        let config = match weights.metadata() {
            ModelMetadata::Gguf(metadata) => gguf::read(metadata, weights)?,
            ModelMetadata::HfFolder { folder, config, .. } => {
                huggingface::read(config, &folder.join("config.json").display().to_string())?
            }
        };
        config.check(&weights.path().display().to_string())?;
        Ok(config)
    }

    /// Number of decoder layers.
    pub fn num_layers(&self) -> usize {
        self.layer_windows.len()
    }

    /// Multiply-adds that the layers' weights cost for one token, attention's own left out.
    pub fn weights_per_token(&self) -> u64 {
        let gate = if self.attention_output_gate { self.num_heads } else { 0 };
        let attention = self.head_dim * (2 * self.num_heads + 2 * self.num_kv_heads + gate);
        let recurrent = self.recurrent.as_ref();
        let mixer = |layer: usize| match recurrent.filter(|recurrent| recurrent.has_layer(layer)) {
            Some(recurrent) => recurrent.projected_features(),
            None => attention,
        };
        let layer = |layer: usize| (mixer(layer) + 3 * self.intermediate_size) as u64;
        self.hidden_size as u64 * (0..self.num_layers()).map(layer).sum::<u64>()
    }

    /// What each layer caches.
    pub fn layer_kv(&self) -> Vec<LayerKv> {
        let (kv_heads, head_dim) = (self.num_kv_heads, self.head_dim);
        let layer_kv = |(layer, &window)| match (self.recurrent.as_ref(), window) {
            (Some(recurrent), _) if recurrent.has_layer(layer) => LayerKv::Recurrent(recurrent.shape),
            (_, None) => LayerKv::Full { kv_heads, head_dim },
            (_, Some(window)) => LayerKv::Sliding { window, kv_heads, head_dim },
        };
        self.layer_windows.iter().enumerate().map(layer_kv).collect()
    }

    fn check(&self, file: &str) -> Result<(), ModelError> {
        let fail = |field: &str, reason: String| {
            Err(ModelError::Config { file: file.to_owned(), field: field.to_owned(), reason })
        };
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_layers()),
            ("num_attention_heads", self.num_heads),
            ("num_key_value_heads", self.num_kv_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.context_length),
        ];
        for (field, size) in sizes {
            if size == 0 || size > 1 << 30 {
                return fail(field, format!("{size} is not a size a model can have"));
            }
        }
        if !self.num_heads.is_multiple_of(self.num_kv_heads) {
            let reason = format!("{} query heads do not divide over it", self.num_heads);
            return fail("num_key_value_heads", format!("{}: {reason}", self.num_kv_heads));
        }
        if !self.head_dim.is_multiple_of(8) || self.head_dim > 512 {
            return fail("head_dim", format!("{} is not a multiple of 8 up to 512", self.head_dim));
        }
        if let Some((field, reason)) = self.recurrent.as_ref().and_then(RecurrentSettings::fault) {
            return fail(field, reason);
        }
        let rotary_dim = self.rope.rotary_dim;
        if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) || rotary_dim > self.head_dim {
            let reason = format!("{rotary_dim} of {} elements of a head cannot rotate", self.head_dim);
            return fail("partial_rotary_factor", reason);
        }
        if let Some(window) = self.layer_windows.iter().flatten().find(|&&window| window == 0) {
            return fail("sliding_window", format!("{window} tokens"));
        }
        Ok(())
    }
}

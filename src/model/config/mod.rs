//! [`ModelConfig`]: shapes and settings, read from either dialect.

mod experts;
mod gemma4;
mod gguf;
mod gguf_gemma4;
mod gguf_llama3;
mod gguf_qwen3_5;
mod huggingface;
mod manifest;
mod recurrent;
mod rope;

pub use experts::ExpertSettings;
pub use gemma4::{Gemma4Settings, PerLayerInputs};
pub use recurrent::RecurrentSettings;
pub use rope::{RopeScaling, RopeSettings, Yarn};

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
    /// Qwen3 with experts.
    Qwen3Moe,
    /// Qwen3.5, dense, text.
    Qwen3_5,
    /// gpt-oss.
    GptOss,
    /// Gemma 3, text.
    Gemma3,
    /// Gemma 4, text, dense.
    Gemma4,
}

impl Family {
    /// Every family, with the name HF configs (`model_type`) and GGUF files (`general.architecture`) give it.
    pub const ALL: [(Family, &'static [&'static str]); 7] = [
        (Family::Llama, &["llama"]),
        (Family::Qwen3, &["qwen3"]),
        (Family::Qwen3Moe, &["qwen3_moe", "qwen3moe"]),
        (Family::Qwen3_5, &["qwen3_5_text", "qwen3_5", "qwen35"]),
        (Family::GptOss, &["gpt_oss", "gpt-oss"]),
        (Family::Gemma3, &["gemma3_text", "gemma3"]),
        (Family::Gemma4, &["gemma4_text", "gemma4"]),
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// x * sigmoid(x).
    Silu,
    /// The tanh approximation of GELU.
    GeluTanh,
    /// x * sigmoid(alpha x), x at most `limit`; the other factor is kept between `-limit` and `limit`, and 1 is added to it.
    ClampedSwiglu {
        /// Gain of the sigmoid.
        alpha: f32,
        /// Bound of both factors.
        limit: f32,
    },
}

/// Which matrix projects to the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadSource {
    /// One of its own.
    Own,
    /// The embedding. Some checkpoints hold a copy of it under the head's name, which is left alone.
    Embedding,
    /// One of its own where the files have one, else the embedding.
    WhatThereIs,
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
    /// The mixture of experts that some or all layers have in the place of the feed-forward block.
    pub experts: Option<ExpertSettings>,
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
    /// Whether the projections of attention have biases.
    pub attention_bias: bool,
    /// Whether each query head has a sink: a score that takes part in the softmax and has no value.
    pub attention_sinks: bool,
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
    /// Which matrix projects to the vocabulary.
    pub head: HeadSource,
    /// What Gemma 4 has beside all this.
    pub gemma4: Option<Gemma4Settings>,
}

/// Heads of one layer's keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvHeads {
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements a head, of queries too.
    pub head_dim: usize,
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

    /// The settings of a layer that keeps a state; `None` for one with keys and values.
    pub fn recurrent_layer(&self, layer: usize) -> Option<&RecurrentSettings> {
        self.recurrent.as_ref().filter(|recurrent| recurrent.has_layer(layer))
    }

    /// Heads of a layer's keys and values.
    pub fn kv_heads(&self, layer: usize) -> KvHeads {
        match &self.gemma4 {
            Some(gemma4) if self.layer_windows[layer].is_none() => gemma4.full_heads,
            _ => KvHeads { kv_heads: self.num_kv_heads, head_dim: self.head_dim },
        }
    }

    /// Width of a layer's feed-forward block.
    pub fn layer_intermediate_size(&self, layer: usize) -> usize {
        let is_doubled = self.gemma4.as_ref().is_some_and(|gemma4| gemma4.shared_mlp_is_double_wide);
        match is_doubled && layer >= self.num_own_kv_layers() {
            true => 2 * self.intermediate_size,
            false => self.intermediate_size,
        }
    }

    /// Layers that have a cache of their own (keys and values, or a state): the first ones.
    pub fn num_own_kv_layers(&self) -> usize {
        let shared = self.gemma4.as_ref().map_or(0, |gemma4| gemma4.num_kv_shared_layers);
        self.num_layers().saturating_sub(shared)
    }

    /// Multiply-adds that the layers' weights cost for one token of a prompt, attention's own left out. Layers without
    /// keys and values of their own compute the requested rows alone, and do not count.
    pub fn weights_per_token(&self) -> u64 {
        let layer = |layer: usize| {
            let KvHeads { kv_heads, head_dim } = self.kv_heads(layer);
            let gate = if self.attention_output_gate { self.num_heads } else { 0 };
            let mixer = match self.recurrent_layer(layer) {
                Some(recurrent) => recurrent.projected_features(),
                None => head_dim * (2 * self.num_heads + 2 * kv_heads + gate),
            };
            let feed_forward = match self.experts.as_ref().filter(|experts| experts.has_layer(layer)) {
                Some(experts) => experts.weights_per_token(),
                None => 3 * self.layer_intermediate_size(layer),
            };
            let inputs = self.gemma4.as_ref().and_then(|gemma4| gemma4.per_layer_inputs);
            let input = 3 * inputs.map_or(0, |inputs| inputs.size);
            self.hidden_size as u64 * (mixer + feed_forward + input) as u64
        };
        (0..self.num_own_kv_layers()).map(layer).sum()
    }

    /// What each layer caches. A layer without keys and values of its own reads those of the last layer of its kind
    /// that has any.
    pub fn layer_kv(&self) -> Vec<LayerKv> {
        let own = self.num_own_kv_layers();
        let last_own = |slides| (0..own).rev().find(|&layer| self.layer_windows[layer].is_some() == slides);
        let last_own = [last_own(false), last_own(true)];
        let layer_kv = |layer: usize| {
            if let Some(recurrent) = self.recurrent_layer(layer) {
                return LayerKv::Recurrent(recurrent.shape);
            }
            let window = self.layer_windows[layer];
            if let Some(owner) = last_own[usize::from(window.is_some())].filter(|_| layer >= own) {
                return LayerKv::SharedWith(owner);
            }
            let KvHeads { kv_heads, head_dim } = self.kv_heads(layer);
            match window {
                None => LayerKv::Full { kv_heads, head_dim },
                Some(window) => LayerKv::Sliding { window, kv_heads, head_dim },
            }
        };
        (0..self.num_layers()).map(layer_kv).collect()
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
        if let Some((field, reason)) = self.experts.as_ref().and_then(ExpertSettings::fault) {
            return fail(field, reason);
        }
        self.check_heads(self.num_kv_heads, self.head_dim, ["num_key_value_heads", "head_dim"], file)?;
        if let Some(gemma4) = &self.gemma4 {
            gemma4.check(self, file)?;
        }
        if let Some((field, reason)) = self.recurrent.as_ref().and_then(RecurrentSettings::fault) {
            return fail(field, reason);
        }
        let full_head_dim = self.gemma4.map_or(self.head_dim, |gemma4| gemma4.full_heads.head_dim);
        for (rope, head_dim) in [(self.rope, full_head_dim), (self.rope_sliding, self.head_dim)] {
            let rotary_dim = rope.rotary_dim;
            if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) || rotary_dim > head_dim {
                let reason = format!("{rotary_dim} of {head_dim} elements of a head cannot rotate");
                return fail("partial_rotary_factor", reason);
            }
        }
        let caps = [
            ("attn_logit_softcapping", self.attention_soft_cap),
            ("final_logit_softcapping", self.logit_soft_cap),
        ];
        for (field, cap) in caps {
            if let Some(cap) = cap.filter(|cap| !(cap.is_finite() && *cap > 0.0)) {
                return fail(field, format!("{cap} is no positive number"));
            }
        }
        if let Some(window) = self.layer_windows.iter().flatten().find(|&&window| window == 0) {
            return fail("sliding_window", format!("{window} tokens"));
        }
        Ok(())
    }

    fn check_heads(
        &self,
        kv_heads: usize,
        head_dim: usize,
        fields: [&str; 2],
        file: &str,
    ) -> Result<(), ModelError> {
        let fail = |field: &str, reason: String| {
            Err(ModelError::Config { file: file.to_owned(), field: field.to_owned(), reason })
        };
        if kv_heads == 0 || !self.num_heads.is_multiple_of(kv_heads) {
            let reason = format!("{} query heads do not divide over it", self.num_heads);
            return fail(fields[0], format!("{kv_heads}: {reason}"));
        }
        if head_dim == 0 || !head_dim.is_multiple_of(8) || head_dim > 512 {
            return fail(fields[1], format!("{head_dim} is not a multiple of 8 up to 512"));
        }
        Ok(())
    }
}

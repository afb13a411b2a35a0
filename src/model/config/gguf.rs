//! The GGUF dialect: keys under the architecture's name.

use super::{Activation, Family, ModelConfig, RopeScaling, RopeSettings};
use crate::model::ModelError;
use crate::ops::RopeLayout;
use crate::weights::{GgufMetadata, Weights};

/// The base that Gemma 3's sliding layers rotate with; GGUF files do not say it.
const GEMMA3_SLIDING_THETA: f32 = 10_000.0;
/// Every sixth layer of Gemma 3 is a full one; GGUF files do not say it either.
const GEMMA3_LAYER_PERIOD: usize = 6;

struct Fields<'a> {
    metadata: &'a GgufMetadata,
    architecture: &'a str,
    file: String,
}

impl Fields<'_> {
    fn missing(&self, key: &str) -> ModelError {
        ModelError::Config { file: self.file.clone(), field: key.to_owned(), reason: "is missing".to_owned() }
    }

    fn size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        let key = format!("{}.{key}", self.architecture);
        Ok(self.metadata.u64(&key)?.map(|value| usize::try_from(value).unwrap_or(usize::MAX)))
    }

    fn required_size(&self, key: &str) -> Result<usize, ModelError> {
        self.size(key)?.ok_or_else(|| self.missing(&format!("{}.{key}", self.architecture)))
    }

    fn float(&self, key: &str) -> Result<Option<f32>, ModelError> {
        Ok(self.metadata.f32(&format!("{}.{key}", self.architecture))?)
    }

    fn rope_scaling(&self) -> Result<RopeScaling, ModelError> {
        let key = format!("{}.rope.scaling.type", self.architecture);
        match self.metadata.string(&key)? {
            None | Some("none") => Ok(RopeScaling::None),
            Some("linear") => {
                let factor = self.float("rope.scaling.factor")?;
                let key = format!("{}.rope.scaling.factor", self.architecture);
                Ok(RopeScaling::Linear { factor: factor.ok_or_else(|| self.missing(&key))? })
            }
            Some(other) => Err(ModelError::Config {
                file: self.file.clone(),
                field: key,
                reason: format!("{other:?} is not supported (supported: none, linear)"),
            }),
        }
    }
}

pub(super) fn read(metadata: &GgufMetadata, weights: &Weights) -> Result<ModelConfig, ModelError> {
    let file = weights.path().display().to_string();
    let architecture = metadata.architecture()?;
    let family = Family::from_name(architecture, &file)?;
    if family == Family::Qwen3_5 {
        let supported = "as safetensors only".to_owned();
        return Err(ModelError::UnsupportedArchitecture {
            file,
            architecture: architecture.to_owned(),
            supported,
        });
    }
    let fields = Fields { metadata, architecture, file };
    let hidden_size = fields.required_size("embedding_length")?;
    let num_heads = fields.required_size("attention.head_count")?;
    let head_dim = match fields.size("attention.key_length")? {
        Some(length) => length,
        None => hidden_size.checked_div(num_heads).unwrap_or(0),
    };
    let num_layers = fields.required_size("block_count")?.min(1 << 20);
    let embedding = weights.get("model.embed_tokens.weight")?;
    let vocab_size = embedding.map(|tensor| tensor.shape.first().copied().unwrap_or(0));
    let full = RopeSettings {
        theta: fields.float("rope.freq_base")?.unwrap_or(10_000.0),
        rotary_dim: fields.size("rope.dimension_count")?.unwrap_or(head_dim),
        scaling: fields.rope_scaling()?,
    };
    let gemma = family == Family::Gemma3;
    let sliding = RopeSettings { theta: GEMMA3_SLIDING_THETA, scaling: RopeScaling::None, ..full };
    let window = match (gemma, fields.size("attention.sliding_window")?) {
        (true, Some(window)) => Some(u32::try_from(window).unwrap_or(u32::MAX)),
        (true, None) => return Err(fields.missing("gemma3.attention.sliding_window")),
        (false, _) => None,
    };
    Ok(ModelConfig {
        family,
        vocab_size: vocab_size.unwrap_or(0),
        hidden_size,
        intermediate_size: fields.required_size("feed_forward_length")?,
        num_heads,
        num_kv_heads: fields.size("attention.head_count_kv")?.unwrap_or(num_heads),
        head_dim,
        rms_norm_eps: fields.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-6),
        // GGUF files of Gemma store the norm weights with the 1 already added.
        norm_offset: 0.0,
        context_length: fields.required_size("context_length")?,
        layer_windows: (0..num_layers)
            .map(|layer| window.filter(|_| !(layer + 1).is_multiple_of(GEMMA3_LAYER_PERIOD)))
            .collect(),
        rope: full,
        rope_sliding: if gemma { sliding } else { full },
        rope_layout: match family {
            Family::Llama => RopeLayout::Interleaved,
            Family::Qwen3 | Family::Qwen3_5 | Family::Gemma3 => RopeLayout::HalfRotation,
        },
        recurrent: None,
        attention_output_gate: false,
        attention_scale: attention_scale(family, num_layers, hidden_size, num_heads, head_dim),
        activation: if gemma { Activation::GeluTanh } else { Activation::Silu },
        embedding_scale: gemma.then(|| (hidden_size as f32).sqrt()),
        attention_soft_cap: None,
        logit_soft_cap: fields.float("final_logit_softcapping")?,
    })
}

/// 1/sqrt(head size), but for Gemma 3 27B (the one of 62 layers), whose published `query_pre_attn_scalar` is
/// hidden size / heads; GGUF files leave it out.
fn attention_scale(family: Family, layers: usize, hidden: usize, heads: usize, head_dim: usize) -> f32 {
    let scalar = match family {
        Family::Gemma3 if layers == 62 => hidden / heads.max(1),
        _ => head_dim,
    };
    1.0 / (scalar as f32).sqrt()
}

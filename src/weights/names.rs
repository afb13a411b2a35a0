//! From names on disk to canonical names: those of a text model's HF checkpoint, without prefix variants.
//!
//! GGUF writers also change some values; [`Conventions`] says which, for the model code to undo.
//!
//! # Source
//! `gguf-py/gguf/tensor_mapping.py` and the converters of llama.cpp (MIT), read 2026-11.
use std::borrow::Cow;

/// What a file's values look like beside the HF checkpoint of the same model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conventions {
    /// RMS norm weights already hold the 1 that the model adds (`1 + w`): true of Gemma in GGUF, where HF stores `w`.
    pub norm_weights_include_one: bool,
    /// Rows of `q_proj` and `k_proj` are reordered within each head of dimension `d`, so that the two halves of a rope
    /// pair are neighbours: row `2j + s` here is row `s * d/2 + j` of the HF checkpoint. True of llama in GGUF.
    pub rope_pairs_interleaved: bool,
    /// `A_log` of recurrent layers holds `-exp(A_log)`. True of Qwen3.5 in GGUF.
    pub decay_rates: bool,
    /// Value heads of recurrent layers are dealt out to key heads in turn, where HF has those of a key head side by side.
    /// True of Qwen3.5 in GGUF.
    pub value_heads_in_turn: bool,
}

impl Conventions {
    /// Those of an HF checkpoint.
    const HUGGING_FACE: Self = Self {
        norm_weights_include_one: false,
        rope_pairs_interleaved: false,
        decay_rates: false,
        value_heads_in_turn: false,
    };
}

/// How the tensors of one GGUF architecture are named. Names are without `.weight` or `.bias`, which stay as they are.
struct Architecture {
    name: &'static str,
    /// Names that are not part of a block.
    top: &'static [(&'static str, &'static str)],
    /// Below `blk.N.`, and below `model.layers.N.`. Several tables, so that families share what they have in common.
    blocks: &'static [&'static [(&'static str, &'static str)]],
    conventions: Conventions,
}

const TOP: &[(&str, &str)] =
    &[("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

const ATTENTION: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
];

const QK_NORM: &[(&str, &str)] = &[("attn_q_norm", "self_attn.q_norm"), ("attn_k_norm", "self_attn.k_norm")];

const GATED_MLP: &[(&str, &str)] =
    &[("ffn_gate", "mlp.gate_proj"), ("ffn_up", "mlp.up_proj"), ("ffn_down", "mlp.down_proj")];

/// All experts of a layer in one tensor, which HF checkpoints have one of for each expert.
const EXPERTS: &[(&str, &str)] = &[
    ("ffn_gate_exps", "mlp.experts.gate_proj"),
    ("ffn_up_exps", "mlp.experts.up_proj"),
    ("ffn_down_exps", "mlp.experts.down_proj"),
];

const QWEN3_ROUTER: &[(&str, &str)] = &[("ffn_gate_inp", "mlp.gate")];

/// HF's sinks have no suffix; here they are `self_attn.sinks.weight`.
const GPT_OSS: &[(&str, &str)] = &[
    ("ffn_gate_inp", "mlp.router"),
    ("attn_sinks", "self_attn.sinks"),
    ("post_attention_norm", "post_attention_layernorm"),
];

/// One norm in front of attention and one in front of the MLP.
const PRE_NORM: &[(&str, &str)] = &[("ffn_norm", "post_attention_layernorm")];

/// Norms around both: HF's `post_attention_layernorm` is then the norm behind attention, not the one in front of the MLP.
const SANDWICH_NORM: &[(&str, &str)] = &[
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

/// Of Gemma 3n and 4: a second embedding, of which every layer sees its own part.
const PER_LAYER_INPUT: &[(&str, &str)] = &[
    ("inp_gate", "per_layer_input_gate"),
    ("proj", "per_layer_projection"),
    ("post_norm", "post_per_layer_input_norm"),
];

const PER_LAYER_TOP: &[(&str, &str)] = &[
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
    ("per_layer_token_embd", "model.embed_tokens_per_layer"),
    ("per_layer_model_proj", "model.per_layer_model_projection"),
    ("per_layer_proj_norm", "model.per_layer_projection_norm"),
];

/// Of the recurrent layers of Qwen3.5, whose other layers have the norm in front of the MLP under this name too.
const GATED_DELTA_NET: &[(&str, &str)] = &[
    ("post_attention_norm", "post_attention_layernorm"),
    ("attn_qkv", "linear_attn.in_proj_qkv"),
    ("attn_gate", "linear_attn.in_proj_z"),
    ("ssm_beta", "linear_attn.in_proj_b"),
    ("ssm_alpha", "linear_attn.in_proj_a"),
    ("ssm_conv1d", "linear_attn.conv1d"),
    ("ssm_norm", "linear_attn.norm"),
    ("ssm_out", "linear_attn.out_proj"),
];

/// Of a block, with the suffix where there is one: HF has these as buffers or bare parameters, whose names end without one.
const BLOCK_BUFFERS: &[(&str, &str)] = &[
    ("layer_output_scale.weight", "layer_scalar"),
    ("ssm_a", "linear_attn.A_log"),
    ("ssm_dt.bias", "linear_attn.dt_bias"),
];

const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "llama",
        top: TOP,
        blocks: &[ATTENTION, GATED_MLP, PRE_NORM],
        conventions: Conventions { rope_pairs_interleaved: true, ..Conventions::HUGGING_FACE },
    },
    Architecture {
        name: "qwen3",
        top: TOP,
        blocks: &[ATTENTION, QK_NORM, GATED_MLP, PRE_NORM],
        conventions: Conventions::HUGGING_FACE,
    },
    Architecture {
        name: "qwen3moe",
        top: TOP,
        blocks: &[ATTENTION, QK_NORM, GATED_MLP, EXPERTS, QWEN3_ROUTER, PRE_NORM],
        conventions: Conventions::HUGGING_FACE,
    },
    Architecture {
        name: "qwen35",
        top: TOP,
        blocks: &[ATTENTION, QK_NORM, GATED_MLP, GATED_DELTA_NET],
        conventions: Conventions {
            norm_weights_include_one: true,
            decay_rates: true,
            value_heads_in_turn: true,
            ..Conventions::HUGGING_FACE
        },
    },
    Architecture {
        name: "gpt-oss",
        top: TOP,
        blocks: &[ATTENTION, GATED_MLP, EXPERTS, GPT_OSS],
        conventions: Conventions::HUGGING_FACE,
    },
    Architecture {
        name: "gemma3",
        top: TOP,
        blocks: &[ATTENTION, QK_NORM, GATED_MLP, SANDWICH_NORM],
        conventions: Conventions { norm_weights_include_one: true, ..Conventions::HUGGING_FACE },
    },
    Architecture {
        name: "gemma4",
        top: PER_LAYER_TOP,
        blocks: &[ATTENTION, QK_NORM, GATED_MLP, SANDWICH_NORM, PER_LAYER_INPUT],
        conventions: Conventions::HUGGING_FACE,
    },
];

fn find_architecture(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|known| known.name == name)
}

/// GGUF architectures whose names are mapped.
pub fn known_gguf_architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|known| known.name)
}

/// The conventions of a GGUF architecture; `None` for one that is not known.
pub fn gguf_conventions(architecture: &str) -> Option<Conventions> {
    find_architecture(architecture).map(|known| known.conventions)
}

/// The canonical name of a GGUF tensor, or `None` for one without a counterpart (`rope_freqs.weight`), or of an
/// architecture that is not known: such a tensor keeps its name.
pub fn canonical_gguf_name(architecture: &str, name: &str) -> Option<String> {
    let known = find_architecture(architecture)?;
    if let Some((layer, part)) = block_part(name)
        && let Some((_, canonical)) = BLOCK_BUFFERS.iter().find(|(gguf, _)| *gguf == part)
    {
        return Some(format!("model.layers.{layer}.{canonical}"));
    }
    let (stem, suffix) = name.rsplit_once('.')?;
    if !matches!(suffix, "weight" | "bias") {
        return None;
    }
    if let Some((_, canonical)) = known.top.iter().find(|(gguf, _)| *gguf == stem) {
        return Some(format!("{canonical}.{suffix}"));
    }
    let (layer, part) = block_part(stem)?;
    let mut parts = known.blocks.iter().copied().flatten();
    let (_, canonical) = parts.find(|(gguf, _)| *gguf == part)?;
    Some(format!("model.layers.{layer}.{canonical}.{suffix}"))
}

/// `blk.N.PART` as N and PART; only the number's one usual spelling, so that `blk.01` does not pass for layer 1.
fn block_part(name: &str) -> Option<(&str, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    (layer.parse::<u32>().ok()?.to_string() == layer).then_some((layer, part))
}

/// Parts of multimodal checkpoints, and extra heads, that the text model does not use; each may stand below `model.`.
const SKIPPED: &[&str] = &[
    "vision_tower",
    "vision_model",
    "vision_embed_tokens",
    "visual",
    "multi_modal_projector",
    "mm_projector",
    "embed_vision",
    "audio_tower",
    "audio_model",
    "embed_audio",
    // Qwen3.5's multi-token prediction head.
    "mtp",
];

/// What a text model's names begin with where it was saved without its task model (Qwen3-Embedding): no `model.` in front.
const BARE: &[&str] = &["embed_tokens", "layers", "norm"];

/// What a name in an HF checkpoint means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HfName<'a> {
    /// A tensor of the text model, by its canonical name.
    Text(Cow<'a, str>),
    /// A part that is left out, by its prefix on disk (`model.vision_tower`).
    Skipped(&'a str),
}

/// Reads a name of an HF checkpoint.
pub fn canonical_hf_name(name: &str) -> HfName<'_> {
    let model_prefix = "model.";
    let inner = name.strip_prefix(model_prefix).unwrap_or(name);
    let part = inner.split('.').next().unwrap_or(inner);
    if SKIPPED.contains(&part) {
        return HfName::Skipped(&name[..name.len() - inner.len() + part.len()]);
    }
    if inner == name && BARE.contains(&part) {
        return HfName::Text(Cow::Owned(format!("{model_prefix}{name}")));
    }
    if let Some(rest) = name.strip_prefix("model.language_model.") {
        return HfName::Text(Cow::Owned(format!("model.{rest}")));
    }
    match name.strip_prefix("language_model.") {
        Some(rest) if rest.starts_with(model_prefix) || rest.starts_with("lm_head.") => {
            HfName::Text(Cow::Borrowed(rest))
        }
        _ => HfName::Text(Cow::Borrowed(name)),
    }
}

//! A Llama of the fixtures in GGUF, as llama.cpp's converter writes that architecture: the rows of queries and keys reordered within
//! each head so that rotary pairs are neighbours, matrices as they are, vectors in f32.

use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::drawn::{DrawnTensor, described, drawn_tensors};
use crate::gguf_file::{GgufFile, GgufValue, TensorType};

/// The fixture's file, in a folder that goes with the value.
pub struct LlamaGguf {
    folder: tempfile::TempDir,
}

impl LlamaGguf {
    /// Of drawn weights.
    pub fn of_drawn(name: &str) -> Self {
        Self::write(&described(name), drawn_tensors(name))
    }

    /// Of a checkpoint's weights.
    pub fn of_checkpoint(folder: &Path) -> Self {
        let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
        let stored = tensors.into_iter().map(|(name, tensor)| DrawnTensor {
            name,
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
            data: tensor.data().to_vec(),
        });
        Self::write(folder, stored.collect())
    }

    fn write(folder: &Path, tensors: Vec<DrawnTensor>) -> Self {
        let config = std::fs::read(folder.join("config.json")).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        let mut file = GgufFile::default();
        add_settings(&mut file, &config);
        file.vocabulary(&[]);
        for tensor in tensors {
            add_tensor(&mut file, &config, tensor);
        }
        add_divisors(&mut file, &config);
        let made = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(made.path(), file.into_bytes()).unwrap();
        made
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("model.gguf")
    }
}

fn size(config: &Value, field: &str) -> usize {
    usize::try_from(config[field].as_u64().unwrap()).unwrap()
}

fn add_settings(file: &mut GgufFile, config: &Value) {
    file.key("general.architecture", &GgufValue::Text("llama"));
    for (key, field) in [
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("block_count", "num_hidden_layers"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "head_dim"),
        ("attention.value_length", "head_dim"),
        ("rope.dimension_count", "head_dim"),
    ] {
        file.key(&format!("llama.{key}"), &GgufValue::U32(size(config, field) as u32));
    }
    let rope = &config["rope_parameters"];
    for (key, value) in [
        ("attention.layer_norm_rms_epsilon", &config["rms_norm_eps"]),
        ("rope.freq_base", &rope["rope_theta"]),
    ] {
        file.key(&format!("llama.{key}"), &GgufValue::F32(value.as_f64().unwrap() as f32));
    }
}

/// What Llama 3's scaling divides each frequency by.
fn add_divisors(file: &mut GgufFile, config: &Value) {
    let rope = &config["rope_parameters"];
    if rope["rope_type"] == "default" {
        return;
    }
    assert_eq!(rope["rope_type"], "llama3");
    let number = |field: &str| rope[field].as_f64().unwrap();
    let (factor, original) = (number("factor"), number("original_max_position_embeddings"));
    let (low, high) = (number("low_freq_factor"), number("high_freq_factor"));
    let dim = size(config, "head_dim");
    let divisor = |pair: usize| {
        let wavelength =
            2.0 * std::f64::consts::PI * number("rope_theta").powf((2 * pair) as f64 / dim as f64);
        let smooth = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0);
        1.0 / ((1.0 - smooth) / factor + smooth)
    };
    let divisors: Vec<u8> = (0..dim / 2).flat_map(|pair| (divisor(pair) as f32).to_le_bytes()).collect();
    file.tensor("rope_freqs.weight", &[dim as u64 / 2], TensorType::F32, &divisors);
}

fn add_tensor(file: &mut GgufFile, config: &Value, tensor: DrawnTensor) {
    assert_eq!(tensor.dtype, Dtype::F16, "{}", tensor.name);
    let name = gguf_name(&tensor.name);
    let dims: Vec<u64> = tensor.shape.iter().rev().map(|&dim| dim as u64).collect();
    let heads = match name.rsplit('.').nth(1) {
        Some("attn_q") => Some(size(config, "num_attention_heads")),
        Some("attn_k") => Some(size(config, "num_key_value_heads")),
        _ => None,
    };
    match (heads, dims.len()) {
        (_, 1) => {
            let halves = tensor.data.as_chunks::<2>().0.iter();
            let floats: Vec<u8> =
                halves.flat_map(|&bytes| half::f16::from_le_bytes(bytes).to_f32().to_le_bytes()).collect();
            file.tensor(&name, &dims, TensorType::F32, &floats);
        }
        (Some(heads), _) => {
            let rows = interleaved(&tensor.data, heads * size(config, "head_dim"), heads);
            file.tensor(&name, &dims, TensorType::F16, &rows);
        }
        (None, _) => file.tensor(&name, &dims, TensorType::F16, &tensor.data),
    }
}

/// Row `half * d/2 + pair` of each head of `d` rows becomes row `2 * pair + half`.
fn interleaved(data: &[u8], num_rows: usize, heads: usize) -> Vec<u8> {
    let rows: Vec<&[u8]> = data.chunks_exact(data.len() / num_rows).collect();
    let per_head = num_rows / heads;
    let reorder = |head: &[&[u8]]| {
        let (first, second) = head.split_at(per_head / 2);
        first.iter().zip(second).flat_map(|(a, b)| [*a, *b].concat()).collect::<Vec<u8>>()
    };
    rows.chunks_exact(per_head).flat_map(reorder).collect()
}

/// The name that llama.cpp has for a tensor of the HF checkpoint.
fn gguf_name(name: &str) -> String {
    let stem = name.strip_suffix(".weight").unwrap();
    let Some(part) = stem.strip_prefix("model.layers.") else {
        let top = match stem {
            "model.embed_tokens" => "token_embd",
            "model.norm" => "output_norm",
            "lm_head" => "output",
            _ => panic!("{name} has no name in GGUF"),
        };
        return format!("{top}.weight");
    };
    let (layer, part) = part.split_once('.').unwrap();
    let part = match part {
        "input_layernorm" => "attn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "post_attention_layernorm" => "ffn_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => panic!("{name} has no name in GGUF"),
    };
    format!("blk.{layer}.{part}.weight")
}

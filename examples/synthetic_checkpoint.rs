//! Writes a checkpoint of drawn weights in the shape of Qwen3-8B, of fewer layers: for timing on a machine that no real weights can
//! be brought to.
//!
//!   cargo run --release --example synthetic_checkpoint -- FOLDER [LAYERS]     default: 4 layers, 1.6 GB
#![allow(clippy::print_stderr, reason = "a program for the command line")]

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Shapes of the published Qwen3-8B; of its vocabulary only the first tokens.
const HIDDEN: usize = 4096;
const INTERMEDIATE: usize = 12288;
const HEADS: usize = 32;
const KV_HEADS: usize = 8;
const HEAD_DIM: usize = 128;
const VOCAB: usize = 1024;

fn tensors(layers: usize) -> Vec<(String, Vec<usize>)> {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCAB, HIDDEN]),
        ("lm_head.weight".to_owned(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..layers {
        let shapes: [(&str, Vec<usize>); 11] = [
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("self_attn.q_norm", vec![HEAD_DIM]),
            ("self_attn.k_norm", vec![HEAD_DIM]),
            ("self_attn.q_proj", vec![HEADS * HEAD_DIM, HIDDEN]),
            ("self_attn.k_proj", vec![KV_HEADS * HEAD_DIM, HIDDEN]),
            ("self_attn.v_proj", vec![KV_HEADS * HEAD_DIM, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, HEADS * HEAD_DIM]),
            ("mlp.gate_proj", vec![INTERMEDIATE, HIDDEN]),
            ("mlp.up_proj", vec![INTERMEDIATE, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INTERMEDIATE]),
        ];
        tensors.extend(
            shapes.into_iter().map(|(name, shape)| (format!("model.layers.{layer}.{name}.weight"), shape)),
        );
    }
    tensors
}

fn write(folder: &Path, layers: usize) -> Result<u64, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let config = serde_json::json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "max_position_embeddings": 262_144,
        "tie_word_embeddings": false,
        "torch_dtype": "bfloat16",
    });
    std::fs::write(folder.join("config.json"), serde_json::to_vec_pretty(&config)?)?;
    let tensors = tensors(layers);
    let mut header = serde_json::Map::new();
    let mut offset = 0u64;
    for (name, shape) in &tensors {
        let bytes = shape.iter().product::<usize>() as u64 * 2;
        let entry =
            serde_json::json!({ "dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + bytes] });
        header.insert(name.clone(), entry);
        offset += bytes;
    }
    let header = serde_json::to_vec(&header)?;
    let mut out = BufWriter::new(File::create(folder.join("model.safetensors"))?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for (name, shape) in &tensors {
        let is_norm = name.contains("norm");
        for _ in 0..shape.iter().product::<usize>() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Norms near 1, matrices near 1/64: bf16 is the upper half of f32, whose sign and mantissa are drawn.
            let exponent: u16 = if is_norm { 127 } else { 120 };
            let sign = if is_norm { 0 } else { ((state >> 40) as u16 & 1) << 15 };
            let mantissa = if is_norm { 0 } else { (state >> 20) as u16 & 0x7f };
            out.write_all(&(sign | exponent << 7 | mantissa).to_le_bytes())?;
        }
    }
    out.flush()?;
    Ok(offset)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: synthetic_checkpoint FOLDER [LAYERS]")?;
    let layers = arguments.next().map_or(Ok(4), |layers| layers.parse())?;
    let bytes = write(Path::new(&folder), layers)?;
    eprintln!("{folder}: {layers} layers in the shape of Qwen3-8B, {:.2} GB", bytes as f64 / 1e9);
    Ok(())
}

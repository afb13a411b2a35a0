//! A model that says one thing, whatever it is asked: each token has one successor.

use super::tiny::{tokenizer, write_tensors};
use serde_json::{Value, json};
use std::path::Path;

/// Behind the 256 bytes.
const MARKERS: [&str; 6] = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"];
/// A multiple of 8, as heads must be.
const VOCAB: usize = 264;
const HEAD_DIM: usize = 8;

/// The token of a marker, or of a single byte.
fn token(piece: &str) -> usize {
    match MARKERS.iter().position(|marker| *marker == piece) {
        Some(index) => 256 + index,
        None => usize::from(piece.as_bytes()[0]),
    }
}

/// Writes a gpt-oss-like vocabulary, its template's markers, and weights under which the first of `pieces` is followed by
/// the second and so on, and every other token by the end. No piece may stand twice.
pub fn write_model(folder: &Path, context: usize, pieces: &[&str]) {
    std::fs::create_dir_all(folder).unwrap();
    let write = |name: &str, value: Value| std::fs::write(folder.join(name), value.to_string()).unwrap();
    write(
        "config.json",
        json!({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": VOCAB,
            "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
            "head_dim": HEAD_DIM, "vocab_size": VOCAB, "rms_norm_eps": 1e-5, "max_position_embeddings": context,
            "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false,
            "eos_token_id": token("<|return|>")
        }),
    );
    // The engine renders Harmony itself wherever a template has its markers.
    write(
        "tokenizer_config.json",
        json!({"eos_token": "<|return|>", "chat_template": "<|start|>assistant<|channel|>final<|message|>"}),
    );
    write("tokenizer.json", tokenizer(&MARKERS));
    let zeros =
        |name: &str, shape: &[usize]| (name.to_owned(), shape.to_vec(), vec![0.0; shape.iter().product()]);
    let ones = |name: &str| (name.to_owned(), vec![VOCAB], vec![1.0; VOCAB]);
    let mut embedding = zeros("model.embed_tokens.weight", &[VOCAB, VOCAB]);
    let mut head = zeros("lm_head.weight", &[VOCAB, VOCAB]);
    for from in 0..VOCAB {
        embedding.2[from * VOCAB + from] = 1.0;
        let place = pieces.iter().position(|piece| token(piece) == from);
        let next =
            place.and_then(|place| pieces.get(place + 1)).map_or(token("<|return|>"), |piece| token(piece));
        head.2[next * VOCAB + from] = 10.0;
    }
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    write_tensors(
        &folder.join("model.safetensors"),
        vec![
            embedding,
            head,
            ones("model.norm.weight"),
            ones(&layer("input_layernorm")),
            ones(&layer("post_attention_layernorm")),
            zeros(&layer("self_attn.q_proj"), &[HEAD_DIM, VOCAB]),
            zeros(&layer("self_attn.k_proj"), &[HEAD_DIM, VOCAB]),
            zeros(&layer("self_attn.v_proj"), &[HEAD_DIM, VOCAB]),
            zeros(&layer("self_attn.o_proj"), &[VOCAB, HEAD_DIM]),
            zeros(&layer("mlp.gate_proj"), &[8, VOCAB]),
            zeros(&layer("mlp.up_proj"), &[8, VOCAB]),
            zeros(&layer("mlp.down_proj"), &[VOCAB, 8]),
        ],
    );
}

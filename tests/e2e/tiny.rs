//! A tiny Llama of random weights, in a folder as Hugging Face lays one out.

use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const HIDDEN: usize = 32;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 8;
const MLP: usize = 48;
const LAYERS: usize = 2;
const VOCAB: usize = 258;
/// The second turn mark, behind the 256 bytes.
const END: usize = 257;

/// Writes a model that holds `context` tokens; one token a byte.
pub fn write_model(folder: &Path, context: usize) {
    std::fs::create_dir_all(folder).unwrap();
    let write = |name: &str, value: Value| std::fs::write(folder.join(name), value.to_string()).unwrap();
    write(
        "config.json",
        json!({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN,
            "intermediate_size": MLP, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCAB, "rms_norm_eps": 1e-5,
            "max_position_embeddings": context, "rope_theta": 10000.0, "hidden_act": "silu",
            "tie_word_embeddings": false, "eos_token_id": END
        }),
    );
    write(
        "tokenizer_config.json",
        json!({
            "eos_token": "<|im_end|>",
            "chat_template": "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}\
                <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        }),
    );
    write("tokenizer.json", tokenizer(&["<|im_start|>", "<|im_end|>"]));
    write_weights(&folder.join("model.safetensors"));
}

/// The printable stand-in for each byte, as GPT-2's byte-level encoding has it.
fn byte_character(byte: u8) -> char {
    let is_kept = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let byte = u32::from(byte);
    let moved = (0..byte).filter(|other| !is_kept(*other)).count() as u32;
    char::from_u32(if is_kept(byte) { byte } else { 256 + moved }).unwrap()
}

/// One token a byte, and the marks behind them.
pub fn tokenizer(marks: &[&str]) -> Value {
    let vocab: Map<String, Value> =
        (0..=255u8).map(|byte| (byte_character(byte).to_string(), json!(byte))).collect();
    let mark = |id: usize, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let marks: Vec<Value> = marks.iter().zip(256..).map(|(content, id)| mark(id, content)).collect();
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": marks,
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": []}
    })
}

/// Xorshift: the same weights everywhere.
struct Random(u64);

impl Random {
    /// In -1..1.
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

fn write_weights(path: &Path) {
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".into(), vec![VOCAB, HIDDEN]),
        ("lm_head.weight".into(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".into(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        let mut add = |name: &str, shape: &[usize]| {
            shapes.push((format!("model.layers.{layer}.{name}.weight"), shape.to_vec()));
        };
        add("input_layernorm", &[HIDDEN]);
        add("post_attention_layernorm", &[HIDDEN]);
        add("self_attn.q_proj", &[HEADS * HEAD_DIM, HIDDEN]);
        add("self_attn.k_proj", &[KV_HEADS * HEAD_DIM, HIDDEN]);
        add("self_attn.v_proj", &[KV_HEADS * HEAD_DIM, HIDDEN]);
        add("self_attn.o_proj", &[HIDDEN, HEADS * HEAD_DIM]);
        add("mlp.gate_proj", &[MLP, HIDDEN]);
        add("mlp.up_proj", &[MLP, HIDDEN]);
        add("mlp.down_proj", &[HIDDEN, MLP]);
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut filled = |(name, shape): (String, Vec<usize>)| {
        let is_norm = shape.len() == 1;
        let values = (0..shape.iter().product::<usize>()).map(|_| {
            let value = random.next();
            if is_norm { 1.0 + 0.1 * value } else { 0.4 * value }
        });
        let values = values.collect();
        (name, shape, values)
    };
    write_tensors(path, shapes.into_iter().map(&mut filled).collect());
}

/// Writes tensors in f32: names, shapes, values.
pub fn write_tensors(path: &Path, tensors: Vec<(String, Vec<usize>, Vec<f32>)>) {
    let bytes: BTreeMap<String, (Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, shape, values)| (name, (shape, values.into_iter().flat_map(f32::to_le_bytes).collect())))
        .collect();
    let views = bytes.iter().map(|(name, (shape, data))| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap())
    });
    serialize_to_file(views, None, path).unwrap();
}

//! A tiny Qwen3 of random weights, dense or with experts, as a bf16 checkpoint and as a GGUF file of candle's writer.

use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use half::bf16;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::json;

const VOCAB: usize = 259;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const LAYERS: usize = 2;

/// What the tests vary.
#[derive(Clone, Copy)]
pub struct Shape {
    pub hidden: usize,
    pub head_dim: usize,
    /// Of the feed-forward block, or of each expert.
    pub inner: usize,
    /// Experts a layer; 0: one dense block.
    pub experts: usize,
    pub is_tied: bool,
}

/// A parameter by its HF name, its numbers rounded to bf16.
pub struct Parameter {
    pub name: String,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// The parameters of a model of this shape, always the same ones.
pub fn parameters(shape: Shape) -> Vec<Parameter> {
    let Shape { hidden, head_dim, inner, experts, .. } = shape;
    let mut shapes = vec![("model.embed_tokens".to_owned(), vec![VOCAB, hidden])];
    if !shape.is_tied {
        shapes.push(("lm_head".to_owned(), vec![VOCAB, hidden]));
    }
    shapes.push(("model.norm".to_owned(), vec![hidden]));
    for layer in 0..LAYERS {
        let mut add = |name: &str, shape: &[usize]| {
            shapes.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
        };
        add("input_layernorm", &[hidden]);
        add("post_attention_layernorm", &[hidden]);
        add("self_attn.q_proj", &[HEADS * head_dim, hidden]);
        add("self_attn.k_proj", &[KV_HEADS * head_dim, hidden]);
        add("self_attn.v_proj", &[KV_HEADS * head_dim, hidden]);
        add("self_attn.o_proj", &[hidden, HEADS * head_dim]);
        add("self_attn.q_norm", &[head_dim]);
        add("self_attn.k_norm", &[head_dim]);
        let blocks: Vec<String> = match experts {
            0 => vec!["mlp".to_owned()],
            count => (0..count).map(|expert| format!("mlp.experts.{expert}")).collect(),
        };
        for block in &blocks {
            add(&format!("{block}.gate_proj"), &[inner, hidden]);
            add(&format!("{block}.up_proj"), &[inner, hidden]);
            add(&format!("{block}.down_proj"), &[hidden, inner]);
        }
        if experts > 0 {
            add("mlp.gate", &[experts, hidden]);
        }
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let numbers = |(name, shape): (String, Vec<usize>)| {
        let scale = 1.6 / (*shape.last().unwrap() as f32).sqrt();
        let is_norm = shape.len() == 1;
        let number = |_| {
            let number = random.next();
            bf16::from_f32(if is_norm { 1.0 + 0.1 * number } else { scale * number }).to_f32()
        };
        let values = (0..shape.iter().product::<usize>()).map(number).collect();
        Parameter { name: format!("{name}.weight"), shape, values }
    };
    shapes.into_iter().map(numbers).collect()
}

/// Writes `config.json` and `model.safetensors`.
pub fn write_checkpoint(folder: &Path, shape: Shape) {
    let mut config = json!({
        "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": shape.hidden,
        "intermediate_size": shape.inner, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": shape.head_dim, "vocab_size": VOCAB, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 512, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": shape.is_tied,
    });
    if shape.experts > 0 {
        config["model_type"] = json!("qwen3_moe");
        config["architectures"] = json!(["Qwen3MoeForCausalLM"]);
        config["num_experts"] = json!(shape.experts);
        config["num_experts_per_tok"] = json!(2);
        config["moe_intermediate_size"] = json!(shape.inner);
        config["norm_topk_prob"] = json!(true);
        config["mlp_only_layers"] = json!([]);
        config["decoder_sparse_step"] = json!(1);
    }
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let halves = |values: &[f32]| -> Vec<u8> {
        values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect()
    };
    let owned: Vec<(Parameter, Vec<u8>)> =
        parameters(shape).into_iter().map(|p| (halves(&p.values), p)).map(|(data, p)| (p, data)).collect();
    let views = owned.iter().map(|(parameter, data)| {
        (parameter.name.clone(), TensorView::new(Dtype::BF16, parameter.shape.clone(), data).unwrap())
    });
    serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
}

/// Writes a GGUF file whose tensor of each (GGUF) name is of the type that `dtype_of` says.
pub fn write_gguf(path: &Path, shape: Shape, dtype_of: impl Fn(&str) -> GgmlDType) {
    let mut tensors: Vec<(String, Vec<usize>, Vec<f32>)> = Vec::new();
    for Parameter { name, shape, values } in parameters(shape) {
        let (name, expert) = gguf_name(&name);
        match (expert, tensors.iter_mut().find(|(known, ..)| *known == name)) {
            // The experts' matrices lie one after another in one tensor.
            (true, Some((_, stacked, all))) => {
                stacked[0] += 1;
                all.extend(values);
            }
            (true, None) => tensors.push((name, [vec![1], shape].concat(), values)),
            (false, _) => tensors.push((name, shape, values)),
        }
    }
    let tensors: Vec<(String, QTensor)> = tensors
        .into_iter()
        .map(|(name, shape, values)| {
            let floats = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
            let quantised = QTensor::quantize(&floats, dtype_of(&name)).unwrap();
            (name, quantised)
        })
        .collect();
    let tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let metadata = metadata(shape);
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    gguf_file::write(&mut std::fs::File::create(path).unwrap(), &metadata, &tensors).unwrap();
}

/// The GGUF name, and whether the tensor is one expert's share of it.
fn gguf_name(name: &str) -> (String, bool) {
    let top = [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.norm.weight", "output_norm.weight"),
        ("lm_head.weight", "output.weight"),
    ];
    if let Some((_, gguf)) = top.iter().find(|(hf, _)| *hf == name) {
        return ((*gguf).to_owned(), false);
    }
    let parts: Vec<&str> = name.split('.').collect();
    let is_expert = parts[4] == "experts";
    let leaf = match parts[parts.len() - 2] {
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        "q_proj" => "attn_q",
        "k_proj" => "attn_k",
        "v_proj" => "attn_v",
        "o_proj" => "attn_output",
        "q_norm" => "attn_q_norm",
        "k_norm" => "attn_k_norm",
        "gate_proj" => "ffn_gate",
        "up_proj" => "ffn_up",
        "down_proj" => "ffn_down",
        "gate" => "ffn_gate_inp",
        other => panic!("{other}"),
    };
    (format!("blk.{}.{leaf}{}.weight", parts[2], if is_expert { "_exps" } else { "" }), is_expert)
}

fn metadata(shape: Shape) -> Vec<(String, Value)> {
    let architecture = if shape.experts > 0 { "qwen3moe" } else { "qwen3" };
    let key = |key: &str| format!("{architecture}.{key}");
    let size = |name: &str, size: usize| (key(name), Value::U32(size as u32));
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    let types = (0..VOCAB).map(|id| Value::I32([2, 3, 3].get(id).copied().unwrap_or(6))).collect();
    let text = |key: &str, text: &str| (key.to_owned(), Value::String(text.to_owned()));
    vec![
        text("general.architecture", architecture),
        size("context_length", 512),
        size("embedding_length", shape.hidden),
        size("block_count", LAYERS),
        size("feed_forward_length", shape.inner),
        size("attention.head_count", HEADS),
        size("attention.head_count_kv", KV_HEADS),
        size("attention.key_length", shape.head_dim),
        size("expert_count", shape.experts),
        size("expert_used_count", 2),
        size("expert_feed_forward_length", shape.inner),
        (key("attention.layer_norm_rms_epsilon"), Value::F32(1e-6)),
        (key("rope.freq_base"), Value::F32(10000.0)),
        text("tokenizer.ggml.model", "llama"),
        ("tokenizer.ggml.tokens".into(), Value::Array(tokens.into_iter().map(Value::String).collect())),
        ("tokenizer.ggml.scores".into(), Value::Array(vec![Value::F32(0.0); VOCAB])),
        ("tokenizer.ggml.token_type".into(), Value::Array(types)),
        ("tokenizer.ggml.bos_token_id".into(), Value::U32(1)),
        ("tokenizer.ggml.eos_token_id".into(), Value::U32(2)),
    ]
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

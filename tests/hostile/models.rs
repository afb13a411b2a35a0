//! Model files: GGUF, safetensors, config.json, tokenizer.json. Whatever loads in spite of the damage also runs.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use longwick::engine::{Engine, EngineError, EngineOptions, GenerateParams, Request, RequestKind};
use longwick::tokenizer::Tokenizer;
use longwick::weights::Weights;
use serde_json::{Map, Value, json};

use crate::damage::{Attack, Random, check_memory};
use crate::gguf_file::{GgufFile, GgufValue, TensorType};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny").join(name)
}

/// A file of a fixture.
pub fn fixture_file(name: &str, file: &str) -> PathBuf {
    fixture(name).join(file)
}

/// Loads a model and generates two tokens; damaged weights may give any tokens, or a request that fails by itself.
pub fn load_and_run(path: &Path) -> Result<(), Box<EngineError>> {
    let options = EngineOptions {
        threads: NonZeroUsize::new(1),
        kv_pool_bytes: Some(8 << 20),
        max_batch_tokens: 32,
        ..EngineOptions::default()
    };
    let mut engine = Engine::load(path, options, &mut |_, _| {})?;
    let params = GenerateParams { max_tokens: 2, ..GenerateParams::default() };
    engine.run(Request::new(vec![3, 4, 5], RequestKind::Generate(params)))?;
    Ok(())
}

/// A Llama of one layer with a SentencePiece vocabulary.
fn small_gguf() -> Vec<u8> {
    let mut gguf = GgufFile::default();
    gguf.key("general.architecture", &GgufValue::Text("llama"));
    for (name, value) in [
        ("llama.embedding_length", 32_u32),
        ("llama.block_count", 1),
        ("llama.attention.head_count", 2),
        ("llama.attention.head_count_kv", 1),
        ("llama.feed_forward_length", 64),
        ("llama.context_length", 256),
        ("llama.rope.dimension_count", 16),
    ] {
        gguf.key(name, &GgufValue::U32(value));
    }
    gguf.key("llama.attention.layer_norm_rms_epsilon", &GgufValue::F32(1e-5));
    gguf.key("llama.rope.freq_base", &GgufValue::F32(10_000.0));
    gguf.key(
        "tokenizer.chat_template",
        &GgufValue::Text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"),
    );
    let pieces = ["\u{2581}", "a", "b", "ab", "\u{2581}ab"];
    gguf.vocabulary(&pieces);
    let vocab = 259 + pieces.len() as u64;
    let mut random = Random::new(1);
    for (name, dims) in [
        ("token_embd", &[32, vocab][..]),
        ("output_norm", &[32]),
        ("blk.0.attn_norm", &[32]),
        ("blk.0.attn_q", &[32, 32]),
        ("blk.0.attn_k", &[32, 16]),
        ("blk.0.attn_v", &[32, 16]),
        ("blk.0.attn_output", &[32, 32]),
        ("blk.0.ffn_norm", &[32]),
        ("blk.0.ffn_gate", &[32, 64]),
        ("blk.0.ffn_up", &[32, 64]),
        ("blk.0.ffn_down", &[64, 32]),
    ] {
        let mut value = || (random.below(2_001) as f32 - 1_000.0) / 4_000.0;
        let data: Vec<u8> = (0..dims.iter().product::<u64>()).flat_map(|_| value().to_le_bytes()).collect();
        gguf.tensor(&format!("{name}.weight"), dims, TensorType::F32, &data);
    }
    gguf.into_bytes()
}

#[test]
fn gguf() {
    let folder = tempfile::tempdir().unwrap();
    let valid = small_gguf();
    Attack { file: "model.gguf", valid: &valid, rounds: 500, seed: 1 }.run(folder.path(), load_and_run);
    // Header and vocabulary alone, where no tensor data hides the damage.
    let header = valid.len() - valid.len() / 2;
    Attack { file: "model.gguf", valid: &valid, rounds: 500, seed: 2 }.run(folder.path(), |path| {
        let weights = Weights::open(path).map_err(|error| Box::new(EngineError::from(error)))?;
        Tokenizer::from_weights(&weights).map_err(|error| Box::new(EngineError::from(error)))
    });
    // Every length up to the tensors' data.
    let path = folder.path().join("model.gguf");
    for length in (0..header.min(6_000)).step_by(7) {
        std::fs::write(&path, &valid[..length]).unwrap();
        assert!(load_and_run(&path).is_err(), "{length} of {} bytes loaded", valid.len());
    }
    check_memory();
}

/// Copies a fixture's files to a folder of its own.
pub fn copied(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(fixture(name).join(file), folder.path().join(file)).unwrap();
    }
    folder
}

#[test]
fn safetensors() {
    let folder = copied("llama");
    let valid = std::fs::read(folder.path().join("model.safetensors")).unwrap();
    Attack { file: "model.safetensors", valid: &valid, rounds: 300, seed: 3 }
        .run(folder.path(), |path| load_and_run(path.parent().unwrap_or(path)));
    let path = folder.path().join("model.safetensors");
    for hostile in [u64::MAX, 1 << 40, valid.len() as u64, 0] {
        std::fs::write(&path, [&hostile.to_le_bytes(), &valid[8..]].concat()).unwrap();
        assert!(load_and_run(folder.path()).is_err(), "a header of {hostile} bytes was read");
    }
}

#[test]
fn config_json() {
    let names = ["llama", "qwen3", "gemma3", "gemma4", "qwen3_moe", "gpt_oss", "qwen3_5"];
    for (seed, name) in (4..).zip(names) {
        let folder = copied(name);
        let valid = std::fs::read(folder.path().join("config.json")).unwrap();
        Attack { file: "config.json", valid: &valid, rounds: 150, seed }
            .run(folder.path(), |path| load_and_run(path.parent().unwrap_or(path)));
        check_each_field(folder.path(), &valid);
    }
}

/// A cap of nothing is found where it is written, not in the first layer that would use it.
#[test]
fn soft_caps_that_are_no_positive_number() {
    let folder = copied("gemma3");
    let path = folder.path().join("config.json");
    let valid: Map<String, Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for field in ["attn_logit_softcapping", "final_logit_softcapping"] {
        for cap in [0.0, -30.0] {
            let mut config = valid.clone();
            let text = config.get_mut("text_config").and_then(Value::as_object_mut);
            match text {
                Some(text) => text.insert(field.to_owned(), json!(cap)),
                None => config.insert(field.to_owned(), json!(cap)),
            };
            std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
            let error = load_and_run(folder.path()).unwrap_err().to_string();
            assert!(error.contains(field) && error.contains("no positive number"), "{error}");
        }
    }
}

/// Every number of a config, set to what no model has.
fn check_each_field(folder: &Path, valid: &[u8]) {
    let valid: Map<String, Value> = serde_json::from_slice(valid).unwrap();
    for (field, value) in &valid {
        if !value.is_number() && !value.is_object() && !value.is_array() {
            continue;
        }
        for hostile in
            [json!(0), json!(-1), json!(1e300), json!(u64::MAX), json!(1_u64 << 40), json!([]), json!({})]
        {
            let mut config = valid.clone();
            config.insert(field.clone(), hostile);
            std::fs::write(folder.join("config.json"), Value::Object(config).to_string()).unwrap();
            // Fields that mean nothing to the arithmetic may say anything.
            let _typed = load_and_run(folder);
        }
    }
    check_memory();
}

/// A byte-level BPE tokenizer of all bytes and two merges.
fn tokenizer_json() -> Value {
    // The bytes' letters, as byte-level BPE writes them: printable ones as they are, the others from U+0100 on.
    let printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut others = 0;
    let mut vocab = Map::new();
    for byte in 0..256_u32 {
        let code = if printable(byte) {
            byte
        } else {
            others += 1;
            255 + others
        };
        vocab.insert(char::from_u32(code).unwrap().to_string(), json!(byte));
    }
    vocab.insert("th".to_owned(), json!(256));
    vocab.insert("the".to_owned(), json!(257));
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [{"id": 258, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": [["t", "h"], ["th", "e"]]}
    })
}

#[test]
fn tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let valid = tokenizer_json().to_string();
    Attack { file: "tokenizer.json", valid: valid.as_bytes(), rounds: 600, seed: 7 }.run(
        folder.path(),
        |path| {
            let tokenizer = Tokenizer::from_file(path)?;
            tokenizer.encode("the th\u{e9} \u{1f56f}", longwick::tokenizer::SpecialTokens::Parse).map(|_| ())
        },
    );
    let path = folder.path().join("tokenizer.json");
    for bomb in ["[".repeat(200_000), "{\"a\":".repeat(200_000), String::new(), "null".to_owned()] {
        std::fs::write(&path, bomb).unwrap();
        assert!(Tokenizer::from_file(&path).is_err());
    }
}

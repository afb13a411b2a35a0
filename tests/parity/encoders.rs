//! Encoders and what is built on them, against HF transformers, sentence-transformers and llmlingua.
//!
//! `scripts/export_encoder_fixtures.py` makes the tiny checkpoints and all references. The real sentence embedder is a
//! test asset; without it that test skips, and says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longwick::engine::{EngineOptions, Request, RequestKind, RequestOutput, TextEncoder};
use longwick::tasks::compact::lingua::{Compression, CompressionStep, LlmLingua2};
use longwick::tasks::embed::{EmbedSettings, Embedder, Embedding};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::assets;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoders").join(name)
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[derive(Deserialize)]
struct Reference {
    forward: Vec<Forward>,
    compress: Vec<Compress>,
}

#[derive(Deserialize)]
struct Forward {
    token_ids: Vec<u32>,
    /// The token classifier's.
    logits: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Compress {
    target_token: usize,
    contexts: Vec<String>,
    compressed: String,
}

fn check_forward(name: &str) {
    let folder = fixture(name);
    let reference: Reference = read(&folder.join("reference.json"));
    let model = TextEncoder::load(&folder, None, &[], &mut |_, _| {}).unwrap();
    let sequences: Vec<&[u32]> = reference.forward.iter().map(|case| case.token_ids.as_slice()).collect();
    assert!(sequences.iter().any(|ids| ids.len() == 512), "{name}: no case fills a window");
    let logits = |sequences: &[&[u32]]| {
        let hidden = model.encoder.forward(sequences).unwrap();
        model.encoder.classify(&hidden).unwrap().unwrap().to_vec2::<f32>().unwrap()
    };
    let together = logits(&sequences);
    let expected: Vec<&Vec<f32>> = reference.forward.iter().flat_map(|case| &case.logits).collect();
    assert_eq!(together.len(), expected.len(), "{name}");
    let mut worst = 0.0_f32;
    for (ours, expected) in together.iter().flatten().zip(expected.into_iter().flatten()) {
        worst = worst.max((ours - expected).abs());
    }
    println!("{name}: largest difference {worst:.2e}");
    assert!(worst <= 5e-5, "{name}: a logit is off by {worst:.2e}");
    // What else is in a pass changes no bit.
    let alone: Vec<Vec<f32>> = sequences.iter().flat_map(|&sequence| logits(&[sequence])).collect();
    assert_eq!(together, alone, "{name}");
}

fn compress(model: &Arc<LlmLingua2>, contexts: &[String], target: usize) -> String {
    let mut compression = Compression::new(model.clone(), contexts, target).unwrap();
    loop {
        if let CompressionStep::Done(text) = compression.step().unwrap() {
            return text;
        }
    }
}

fn check_compressions(name: &str) {
    let folder = fixture(name);
    let reference: Reference = read(&folder.join("reference.json"));
    let model = Arc::new(LlmLingua2::load(&folder, None, &mut |_, _| {}).unwrap());
    assert!(reference.compress.len() > 10);
    for case in &reference.compress {
        let ours = compress(&model, &case.contexts, case.target_token);
        assert_eq!(ours, case.compressed, "{name}: target {}", case.target_token);
    }
}

#[test]
fn xlm_roberta_classifies_as_transformers_does() {
    check_forward("tiny-xlm-roberta-large");
}

#[test]
fn bert_classifies_as_transformers_does() {
    check_forward("tiny-bert-base-multilingual-cased");
}

#[test]
fn xlm_roberta_compresses_as_llmlingua_does() {
    check_compressions("tiny-xlm-roberta-large");
}

#[test]
fn bert_compresses_as_llmlingua_does() {
    check_compressions("tiny-bert-base-multilingual-cased");
}

#[derive(Deserialize)]
struct Vectors<T> {
    cases: Vec<T>,
}

#[derive(Deserialize)]
struct TextVector {
    text: String,
    tokens: usize,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct TokensVector {
    token_ids: Vec<u32>,
    embedding: Vec<f32>,
}

fn largest_difference(ours: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(ours.len(), expected.len());
    ours.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn embed(embedder: &mut Embedder, texts: &[String]) -> Vec<Embedding> {
    let mut found = Vec::new();
    embedder
        .embed(texts, &mut |index, embedding| {
            assert_eq!(index, found.len());
            found.push(embedding);
            Ok(())
        })
        .unwrap();
    found
}

#[test]
fn minilm_embeds_as_its_package_does() {
    let Some(folder) = assets::real_model("all-minilm-l6-v2") else { return };
    let reference: Vectors<TextVector> = read(&fixture("minilm.json"));
    let options = EngineOptions::default();
    let mut embedder = Embedder::load(&folder, options, EmbedSettings::default(), &mut |_, _| {}).unwrap();
    let texts: Vec<String> = reference.cases.iter().map(|case| case.text.clone()).collect();
    let found = embed(&mut embedder, &texts);
    assert_eq!(found.len(), texts.len());
    for (ours, case) in found.iter().zip(&reference.cases) {
        assert_eq!(ours.tokens, case.tokens, "{:?}", case.text);
        assert_eq!(ours.is_cut, case.tokens == 256, "{:?}", case.text);
        let worst = largest_difference(&ours.embedding, &case.embedding);
        println!("{} tokens: largest difference {worst:.2e}", case.tokens);
        assert!(worst <= 2e-6, "{:?} is off by {worst:.2e}", case.text);
        assert_eq!(embed(&mut embedder, std::slice::from_ref(&case.text))[0], *ours, "{:?} alone", case.text);
    }
}

/// The checkpoint of the parity tests as Qwen3-Embedding's are published: no `model.` in front of the names.
fn bare_qwen3(folder: &Path) {
    let source = assets::own_fixture("qwen3");
    std::fs::copy(source.join("config.json"), folder.join("config.json")).unwrap();
    let bytes = std::fs::read(source.join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let renamed = tensors.tensors().into_iter().map(|(name, tensor)| {
        (name.strip_prefix("model.").unwrap_or_else(|| panic!("{name}")).to_owned(), tensor)
    });
    safetensors::serialize_to_file(renamed, None, &folder.join("model.safetensors")).unwrap();
}

#[test]
fn qwen3_gives_the_last_tokens_hidden_state_with_either_naming() {
    let bare = tempfile::tempdir().unwrap();
    bare_qwen3(bare.path());
    let reference: Vectors<TokensVector> = read(&fixture("qwen3_embedding.json"));
    for folder in [assets::own_fixture("qwen3"), bare.path().to_owned()] {
        let mut engine = assets::load(&folder, crate::options(16 << 20));
        // All at once, so that hidden states and logits of several sequences share a batch.
        let mut ids = Vec::new();
        for case in &reference.cases {
            ids.push(engine.submit(Request::new(case.token_ids.clone(), RequestKind::Hidden)).unwrap());
            let positions = vec![case.token_ids.len() - 1];
            let logits = RequestKind::Logits { positions, top: 3 };
            engine.submit(Request::new(case.token_ids.clone(), logits)).unwrap();
        }
        let mut found = Vec::new();
        while engine.has_work() {
            found.extend(engine.step().unwrap());
        }
        assert_eq!(found.len(), 2 * reference.cases.len());
        for (case, id) in reference.cases.iter().zip(ids) {
            let completion = found.iter().find(|completion| completion.id == id).unwrap();
            let RequestOutput::Hidden(state) = &completion.output else { panic!("{:?}", completion.output) };
            let length = state.iter().map(|x| x * x).sum::<f32>().sqrt();
            let ours: Vec<f32> = state.iter().map(|x| x / length).collect();
            let worst = largest_difference(&ours, &case.embedding);
            assert!(worst <= 1e-5, "{} tokens are off by {worst:.2e}", case.token_ids.len());
        }
    }
}

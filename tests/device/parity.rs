//! Against HF transformers in f32, whose logits stand beside the checkpoints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longwick::engine::{EngineOptions, Request, RequestKind, RequestOutput};
use longwick::ops::{DeviceChoice, KvDtype};
use longwick::tokenizer::SpecialTokens;
use serde::Deserialize;

use crate::drawn::described;
use crate::llama_gguf::LlamaGguf;
use crate::reference::{Case, TOLERANCE, cases, log_softmax};
use crate::support::greedy_request;
use crate::{accelerator, assets, options};

/// The one prompt of over ten spans is left to the CPU.
const LONGEST: usize = 300;

/// How far log-probabilities after a case's last token lie from the reference's.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Error {
    worst: f64,
    /// The root of the mean square.
    mean: f64,
}

/// Errors of the short cases in `folder`.
fn errors(model: &Path, folder: &Path, options: EngineOptions) -> Vec<Error> {
    let mut engine = assets::load(model, options);
    let error = |case: &Case| {
        let (last, vocab) = (case.token_ids.len() - 1, case.last_logits.len());
        let kind = RequestKind::Logits { positions: vec![last], top: vocab };
        let output = engine.run(Request::new(case.token_ids.clone(), kind)).unwrap().output;
        let RequestOutput::Logits(found) = output else { panic!("{output:?}") };
        assert_eq!(found[0].ids.len(), vocab, "{}", folder.display());
        let expected = log_softmax(&case.last_logits);
        let pairs = found[0].ids.iter().zip(&found[0].logprobs);
        let errors: Vec<f64> =
            pairs.map(|(&id, &found)| (f64::from(found) - expected[id as usize]).abs()).collect();
        assert!(errors.iter().all(|error| error.is_finite()), "{}", folder.display());
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        let worst = errors.iter().copied().fold(0.0, f64::max);
        Error { worst, mean: (squares / vocab as f64).sqrt() }
    };
    let cases = cases(folder);
    let short: Vec<&Case> = cases.iter().filter(|case| case.token_ids.len() <= LONGEST).collect();
    assert!(short.len() > 1, "{}: no cases", folder.display());
    short.into_iter().map(error).collect()
}

/// Prompts of 1 to 300 tokens with f32 keys and values.
fn check_f32(folder: &Path) {
    check_model_f32(folder, folder);
}

fn check_model_f32(model: &Path, folder: &Path) {
    let found = errors(model, folder, options(accelerator(), KvDtype::F32, 128));
    println!("{}: {found:?}", folder.display());
    for Error { worst, .. } in found {
        assert!(worst <= TOLERANCE, "{}: off by {worst:.2e}", folder.display());
    }
}

/// Errors of transformers in bf16, which `scripts/export_bf16_errors.py` measured under this name.
fn plain_bf16(name: &str) -> Vec<Error> {
    #[derive(Deserialize)]
    struct Plain {
        errors: BTreeMap<String, Vec<Error>>,
    }
    let plain = std::fs::read_to_string(assets::fixtures("bf16.json")).unwrap();
    let mut plain: Plain = serde_json::from_str(&plain).unwrap();
    plain.errors.remove(name).unwrap()
}

fn assert_at_most_twice(what: &str, found: &[Error], plain: &[Error]) {
    println!("{what}: {found:?}, plain {plain:?}");
    assert_eq!(found.len(), plain.len(), "{what}");
    for (found, plain) in found.iter().zip(plain) {
        assert!(found.worst <= 2.0 * plain.worst, "{what}: {found:?}, plain {plain:?}");
        assert!(found.mean <= 2.0 * plain.mean, "{what}: {found:?}, plain {plain:?}");
    }
}

/// With bf16 keys, values and products the error may be twice plain bf16's. With fp8 keys and values, and products in bf16, it may be
/// twice what plain bf16 and the CPU, whose products of the same keys and values are f32, are off together.
fn check_bf16(folder: &Path, name: &str) {
    let of = |device, kv_dtype| errors(folder, folder, options(device, kv_dtype, 128));
    let mut plain = plain_bf16(name);
    assert_at_most_twice(&format!("{name} in bf16"), &of(accelerator(), KvDtype::Bf16), &plain);
    for (plain, fp8) in plain.iter_mut().zip(of(DeviceChoice::Cpu, KvDtype::Fp8)) {
        plain.worst += fp8.worst;
        plain.mean += fp8.mean;
    }
    assert_at_most_twice(&format!("{name} in fp8"), &of(accelerator(), KvDtype::Fp8), &plain);
}

fn shared(name: &str) -> Option<PathBuf> {
    assets::shared_data(&format!("tiny/{name}"))
}

#[test]
fn own_llama() {
    check_f32(&assets::own_fixture("llama"));
    check_bf16(&assets::own_fixture("llama"), "llama");
}

/// Neighbours rotate, in heads of 80 elements.
#[test]
fn llama_in_gguf() {
    let (model, folder) = (LlamaGguf::of_drawn("llama_five_heads"), described("llama_five_heads"));
    check_model_f32(&model.path(), &folder);
}

/// On the emulator the published model has the CPU's products, and generates what the CPU does.
#[test]
fn real_llama_in_gguf() {
    let Some(model) = assets::real_model("SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let greedy = |device| {
        let mut engine = assets::load(&model, options(device, KvDtype::F32, 128));
        let prompt = "Once upon a time, a sailor found a map that";
        let prompt = engine.tokenizer().unwrap().encode(prompt, SpecialTokens::AsText).unwrap();
        match engine.run(greedy_request(&prompt, 16)).unwrap().output {
            RequestOutput::Generated { token_ids, .. } => token_ids,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(greedy(DeviceChoice::Emu), greedy(DeviceChoice::Cpu));
}

/// Heads normalised before the rotation, in one kernel.
#[test]
fn own_qwen3() {
    check_f32(&assets::own_fixture("qwen3"));
    check_bf16(&assets::own_fixture("qwen3"), "qwen3");
}

/// Windows of 41 tokens, one key head under two query heads.
#[test]
fn own_gemma3() {
    check_f32(&assets::own_fixture("gemma3"));
    check_bf16(&assets::own_fixture("gemma3"), "gemma3");
}

/// Heads of 64 and 256 elements, layers that share keys and values, per-layer inputs.
#[test]
fn own_gemma4() {
    check_f32(&assets::own_fixture("gemma4"));
}

/// Heads of 80 and 512 elements.
#[test]
fn own_gemma4_whose_keys_are_values() {
    check_f32(&assets::own_fixture("gemma4_keys_are_values"));
}

#[test]
fn shared_qwen3() {
    if let Some(folder) = shared("qwen3") {
        check_f32(&folder);
        check_bf16(&folder, "shared/qwen3");
    }
}

#[test]
fn shared_gemma3() {
    if let Some(folder) = shared("gemma3") {
        check_f32(&folder);
        check_bf16(&folder, "shared/gemma3");
    }
}

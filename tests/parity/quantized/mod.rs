//! Weights quantised at load: the bits of the same weights in a quantised GGUF file, near the floats they come from.

mod models;

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use longwick::engine::{Engine, EngineError, EngineOptions, Request, RequestKind, RequestOutput};
use longwick::model::{ModelError, QuantizationReport};
use longwick::weights::Quantization;

use self::models::{Shape, write_checkpoint, write_gguf};
use crate::assets;
use crate::checkpoint::every_logit;

/// Every width is a multiple of 32, none of 256.
const NARROW: Shape = Shape { hidden: 64, head_dim: 24, inner: 160, experts: 0, is_tied: true };
const EXPERTS: Shape = Shape { hidden: 64, head_dim: 32, inner: 32, experts: 3, is_tied: false };
/// Of the projections only the last of each feed-forward block has a width that 256 does not divide.
const WIDE: Shape = Shape { hidden: 256, head_dim: 64, inner: 96, experts: 0, is_tied: true };

fn options(quantization: Option<Quantization>) -> EngineOptions {
    EngineOptions { quantization, ..crate::options(16 << 20) }
}

fn load(path: &Path, quantization: Option<Quantization>) -> Engine {
    assets::load(path, options(quantization))
}

fn refusal(path: &Path, format: Quantization) -> EngineError {
    Engine::load(path, options(Some(format)), &mut |_, _| {}).err().unwrap()
}

fn ggml(format: Quantization) -> GgmlDType {
    match format {
        Quantization::Q8_0 => GgmlDType::Q8_0,
        Quantization::Q6K => GgmlDType::Q6K,
        Quantization::Q5K => GgmlDType::Q5K,
        Quantization::Q5_0 => GgmlDType::Q5_0,
        Quantization::Q4K => GgmlDType::Q4K,
        Quantization::Q4_1 => GgmlDType::Q4_1,
        Quantization::Q4_0 => GgmlDType::Q4_0,
    }
}

/// The checkpoint quantised at load against a GGUF file in which each projection is of the format, unless `kept` names
/// it, and the vocabulary projection of `vocabulary`.
fn check(shape: Shape, format: Quantization, vocabulary: Quantization, kept: &[&str]) -> QuantizationReport {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    write_checkpoint(folder.path(), shape);
    let vocabulary_name = if shape.is_tied { "token_embd.weight" } else { "output.weight" };
    write_gguf(&file, shape, |name| match name {
        name if name == vocabulary_name => ggml(vocabulary),
        name if name.contains("norm") || name == "token_embd.weight" => GgmlDType::F32,
        name if kept.iter().any(|kept| name.contains(kept)) => GgmlDType::F32,
        _ => ggml(format),
    });
    let mut at_load = load(folder.path(), Some(format));
    let mut in_file = load(&file, None);
    assert!(every_logit(&mut at_load) == every_logit(&mut in_file), "{format}: other bits");
    at_load.quantization().unwrap().clone()
}

#[test]
fn dense_checkpoints_in_blocks_of_32() {
    for format in [Quantization::Q8_0, Quantization::Q5_0, Quantization::Q4_1, Quantization::Q4_0] {
        let report = check(NARROW, format, Quantization::Q8_0, &[]);
        assert_eq!((report.quantised, report.vocabulary), (14, Some(Quantization::Q8_0)), "{report}");
        assert!(report.left.is_empty() && report.already.is_empty(), "{report}");
    }
}

#[test]
fn blocks_of_256_where_they_divide_the_width() {
    for format in [Quantization::Q4K, Quantization::Q5K, Quantization::Q6K] {
        let report = check(WIDE, format, Quantization::Q6K, &["ffn_down"]);
        assert_eq!((report.quantised, report.vocabulary), (12, Some(Quantization::Q6K)));
        assert_eq!(report.left, BTreeMap::from([(("BF16", 96), 2)]));
        assert_eq!(
            report.to_string(),
            format!(
                "12 matrices quantised to {format}, the vocabulary projection to q6_k; 2 matrices left in bf16: width 96 \
                 is no multiple of 256"
            )
        );
    }
}

#[test]
fn experts_one_by_one_and_routers_not() {
    let report = check(EXPERTS, Quantization::Q8_0, Quantization::Q8_0, &["ffn_gate_inp"]);
    // Four of attention and nine of experts in each of two layers.
    assert_eq!((report.quantised, report.vocabulary), (26, Some(Quantization::Q8_0)));
}

#[test]
fn stacked_experts_of_a_float_file_are_quantised_as_those_of_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    write_checkpoint(folder.path(), EXPERTS);
    write_gguf(&file, EXPERTS, |_| GgmlDType::F32);
    let (mut checkpoint, mut gguf) =
        (load(folder.path(), Some(Quantization::Q4_0)), load(&file, Some(Quantization::Q4_0)));
    assert!(every_logit(&mut checkpoint) == every_logit(&mut gguf));
    let (one, other) = (checkpoint.quantization().unwrap(), gguf.quantization().unwrap());
    assert_eq!((one.quantised, other.quantised), (26, 26));
}

#[test]
fn published_experts_in_mxfp4_stay_as_they_are() {
    let folder = assets::own_fixture("gpt_oss");
    let format = Quantization::Q8_0;
    let (mut published, mut gguf) =
        (load(&folder, Some(format)), load(&folder.join("model.gguf"), Some(format)));
    assert!(every_logit(&mut published) == every_logit(&mut gguf));
    // Of three layers of six experts; the published tensors hold gate and up projection together.
    for (engine, experts) in [(&published, 36), (&gguf, 54)] {
        let report = engine.quantization().unwrap();
        assert_eq!(report.already, BTreeMap::from([("MXFP4", experts)]));
        assert_eq!(report.quantised, 12);
        assert!(report.to_string().contains(&format!("{experts} are MXFP4 in the file and stay so")));
    }
    assert!(published.memory().weights < load(&folder, None).memory().weights);
}

#[test]
fn the_fewer_bits_the_further_from_the_floats() {
    let folder = tempfile::tempdir().unwrap();
    write_checkpoint(folder.path(), WIDE);
    let exact = logprobs(&mut load(folder.path(), None));
    let error = |format: Quantization| {
        let found = logprobs(&mut load(folder.path(), Some(format)));
        let squares = found.iter().zip(&exact).map(|(a, b)| f64::from(a - b).powi(2));
        (squares.sum::<f64>() / exact.len() as f64).sqrt()
    };
    let [q8_0, q6_k, q5_0, q4_k, q4_0] =
        [Quantization::Q8_0, Quantization::Q6K, Quantization::Q5_0, Quantization::Q4K, Quantization::Q4_0]
            .map(error);
    println!("q8_0 {q8_0:.4}, q6_k {q6_k:.4}, q5_0 {q5_0:.4}, q4_k {q4_k:.4}, q4_0 {q4_0:.4}");
    assert!(q8_0 < q6_k && q6_k < q4_k && q4_k < q4_0 && q5_0 < q4_0);
    assert!(q8_0 < 0.02 && q4_0 < 0.3, "a random model's log-probabilities, whose spread is about 1");
}

/// The log-probability of each token of the vocabulary at some positions, by id.
fn logprobs(engine: &mut Engine) -> Vec<f32> {
    let vocab = engine.config().vocab_size;
    let prompt: Vec<u32> = (0..60).map(|i| 3 + i * 41 % (vocab as u32 - 3)).collect();
    let positions = vec![0, 20, 40, 59];
    let request = Request::new(prompt, RequestKind::Logits { positions, top: vocab });
    let RequestOutput::Logits(found) = engine.run(request).unwrap().output else { panic!() };
    let by_id = |position: longwick::engine::PositionLogprobs| {
        let mut pairs: Vec<(u32, f32)> = position.ids.into_iter().zip(position.logprobs).collect();
        pairs.sort_by_key(|(id, _)| *id);
        pairs.into_iter().map(|(_, logprob)| logprob)
    };
    found.into_iter().flat_map(by_id).collect()
}

#[test]
fn another_format_is_another_model() {
    let folder = tempfile::tempdir().unwrap();
    write_checkpoint(folder.path(), NARROW);
    let digest = |format| load(folder.path(), format).model_digest().to_owned();
    let digests = [None, Some(Quantization::Q8_0), Some(Quantization::Q4_0)].map(digest);
    assert!(digests[0] != digests[1] && digests[0] != digests[2] && digests[1] != digests[2]);
    assert_eq!(digests[1], digest(Some(Quantization::Q8_0)));
    // Nor do keys and values that were kept pass for another's.
    let file = folder.path().join("session");
    let mut quantised = load(folder.path(), Some(Quantization::Q8_0));
    let session = quantised.open_session(&[3, 4, 5, 6]).unwrap();
    quantised.save_session(&session, &file).unwrap();
    quantised.restore_session(&file).unwrap();
    for other in [None, Some(Quantization::Q4_0)] {
        let error = load(folder.path(), other).restore_session(&file).unwrap_err().to_string();
        assert!(error.contains("another weight digest"), "{error}");
    }
}

#[test]
fn memory_is_what_the_blocks_take() {
    let folder = tempfile::tempdir().unwrap();
    write_checkpoint(folder.path(), WIDE);
    let bytes = |format| load(folder.path(), format).memory().weights as f64;
    let floats = bytes(None);
    // 8.5 bits an element in place of 16; panels of 16 rows round 259 rows of the embedding up.
    let ratio = bytes(Some(Quantization::Q8_0)) / floats;
    assert!((0.52..0.56).contains(&ratio), "{ratio}");
    assert!(bytes(Some(Quantization::Q4K)) < 0.5 * floats);
}

#[test]
fn a_model_without_a_matrix_to_quantise_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    write_checkpoint(folder.path(), NARROW);
    let error = refusal(folder.path(), Quantization::Q4K);
    assert!(matches!(error, EngineError::Model(ModelError::NothingToQuantize { .. })), "{error}");
    let error = error.to_string();
    assert!(error.contains("width 64 is no multiple of 256"), "{error}");
    assert!(error.contains("width 160 is no multiple of 256"), "{error}");

    write_gguf(&file, NARROW, |name| match name.contains("norm") {
        true => GgmlDType::F32,
        false => GgmlDType::Q4_0,
    });
    let error = refusal(&file, Quantization::Q8_0).to_string();
    assert!(error.contains("15 are Q4_0 in the file and stay so"), "{error}");
}

#[test]
fn weights_that_no_block_can_hold_are_named() {
    let folder = tempfile::tempdir().unwrap();
    write_checkpoint(folder.path(), NARROW);
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let name = "model.layers.1.mlp.up_proj.weight";
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let info: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let at = 8 + header + info[name]["data_offsets"][0].as_u64().unwrap() as usize + 2 * (3 * 64 + 5);
    bytes[at..at + 2].copy_from_slice(&half::bf16::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = refusal(folder.path(), Quantization::Q8_0).to_string();
    assert!(error.contains(name) && error.contains("row 3, column 5 is NaN"), "{error}");
}

//! Tiny checkpoints against HF transformers in f32.
//!
//! The reference holds raw logits and the engine gives log-probabilities, so the reference's last position goes
//! through a log-softmax in f64 first. The differences between logits survive that exactly; a constant added to all
//! of them would not, and means nothing to any user of the engine.

use std::path::Path;

use longwick::engine::{Engine, GenerateParams, PositionLogprobs, Request, RequestKind, RequestOutput};

use crate::assets;
use crate::reference::{Case, TOLERANCE, Top, cases, log_softmax};

fn check_folder(folder: &Path) {
    check_model(folder, folder);
}

/// Checks the model at `path` against the reference in `folder`.
pub fn check_model(path: &Path, folder: &Path) {
    let mut engine = assets::load(path, crate::options(128 << 20));
    for case in &cases(folder) {
        let at = format!("{}, {} tokens", path.display(), case.token_ids.len());
        check_last_position(&mut engine, case, &at);
        check_positions(&mut engine, case, &at);
        check_greedy(&mut engine, case, &at);
    }
}

fn check_last_position(engine: &mut Engine, case: &Case, at: &str) {
    let last = case.token_ids.len() - 1;
    let vocab = engine.config().vocab_size;
    assert_eq!(case.last_logits.len(), vocab, "{at}: the reference's vocabulary");
    let ours = logits(engine, &case.token_ids, vec![last], vocab).remove(0);
    assert_eq!(ours.ids.len(), vocab, "{at}");
    let expected = log_softmax(&case.last_logits);
    let (mut worst, mut worst_id) = (0.0, 0);
    for (&id, &logprob) in ours.ids.iter().zip(&ours.logprobs) {
        let difference = (f64::from(logprob) - expected[id as usize]).abs();
        assert!(difference.is_finite(), "{at}: token {id} has log-probability {logprob}");
        if difference > worst {
            (worst, worst_id) = (difference, id);
        }
    }
    println!("{at}: largest difference {worst:.2e} at token {worst_id}");
    assert!(worst <= TOLERANCE, "{at}: token {worst_id} is off by {worst:.2e}, more than {TOLERANCE:.0e}");
}

/// The five most likely ids, and how far each lies behind the first: of these positions the reference has no
/// normaliser, and a difference of two logits may be off by twice the tolerance of one.
fn check_positions(engine: &mut Engine, case: &Case, at: &str) {
    let mut expected: Vec<(usize, &Top)> =
        case.positions.iter().map(|(position, top)| (position.parse().unwrap(), top)).collect();
    expected.sort_by_key(|(position, _)| *position);
    let positions: Vec<usize> = expected.iter().map(|(position, _)| *position).collect();
    let found = logits(engine, &case.token_ids, positions, 5);
    assert_eq!(found.len(), expected.len(), "{at}");
    for (ours, (position, top)) in found.iter().zip(expected) {
        assert_eq!(ours.position, position, "{at}");
        assert_eq!(ours.ids, top.ids, "{at}: the five most likely tokens at position {position}");
        for (rank, (&logprob, &logit)) in ours.logprobs.iter().zip(&top.logits).enumerate() {
            let (behind, expected) = (f64::from(logprob - ours.logprobs[0]), logit - top.logits[0]);
            let difference = (behind - expected).abs();
            assert!(
                difference <= 2.0 * TOLERANCE,
                "{at}: position {position}, rank {rank}: {behind} for {expected}"
            );
        }
    }
}

fn check_greedy(engine: &mut Engine, case: &Case, at: &str) {
    let params =
        GenerateParams { max_tokens: case.greedy_16.len(), ignore_eos: true, ..GenerateParams::default() };
    let request = Request::new(case.token_ids.clone(), RequestKind::Generate(params));
    let output = engine.run(request).unwrap().output;
    let RequestOutput::Generated { token_ids, .. } = output else { panic!("{at}: {output:?}") };
    assert_eq!(token_ids, case.greedy_16, "{at}: greedy tokens");
}

fn logits(engine: &mut Engine, tokens: &[u32], positions: Vec<usize>, top: usize) -> Vec<PositionLogprobs> {
    let request = Request::new(tokens.to_vec(), RequestKind::Logits { positions, top });
    match engine.run(request).unwrap().output {
        RequestOutput::Logits(found) => found,
        other => panic!("logits were asked for, and {other:?} came"),
    }
}

fn check_shared(name: &str) {
    if let Some(folder) = assets::shared_data(&format!("tiny/{name}")) {
        check_folder(&folder);
    }
}

#[test]
fn shared_qwen3() {
    check_shared("qwen3");
}

#[test]
fn shared_qwen3_moe() {
    check_shared("qwen3_moe");
}

#[test]
fn shared_gpt_oss() {
    check_shared("gpt_oss");
}

#[test]
fn shared_gemma3() {
    check_shared("gemma3");
}

#[test]
fn shared_gemma3_with_linear_rope_scaling() {
    check_shared("gemma3_rope_linear");
}

/// Shaped like E4B: per-layer inputs, shared layers.
#[test]
fn shared_gemma4() {
    check_shared("gemma4");
}

/// Shaped like E2B: wider feed-forward blocks in shared layers, a soft cap.
#[test]
fn shared_gemma4_like_e2b() {
    check_shared("gemma4_e2b_like");
}

/// Shaped like 31B: keys as values, two numbers of key heads.
#[test]
fn shared_gemma4_like_31b() {
    check_shared("gemma4_31b_like");
}

#[test]
fn shared_qwen3_5() {
    check_shared("qwen3_5");
}

/// An untied vocabulary projection, llama3 rope scaling, f16 weights.
#[test]
fn own_llama() {
    check_folder(&assets::own_fixture("llama"));
}

/// f32 weights, a head size that is not hidden size over heads.
#[test]
fn own_qwen3() {
    check_folder(&assets::own_fixture("qwen3"));
}

/// Recurrent layers first, between and last, head sizes that are no multiple of 16.
#[test]
fn own_qwen3_5() {
    check_folder(&assets::own_fixture("qwen3_5"));
}

/// The same weights as llama.cpp's converter writes them: value heads dealt out in turn, decay rates in the place of their
/// logarithms, norms with the 1 added, a layer behind the last that is not used.
#[test]
fn own_qwen3_5_in_gguf() {
    let folder = assets::own_fixture("qwen3_5");
    check_model(&folder.join("model-bf16.gguf"), &folder);
}

/// bf16 weights, the config dialect of older releases, linear rope scaling on the full layers.
#[test]
fn own_gemma3() {
    check_folder(&assets::own_fixture("gemma3"));
}

/// bf16 weights, what differs in full layers written layer by layer, three query heads over one key head, heads of 64
/// and 256 elements, shared layers, per-layer inputs from a table of its own vocabulary.
#[test]
fn own_gemma4() {
    check_folder(&assets::own_fixture("gemma4"));
}

/// f16 weights, a config nested as the published ones are, keys as values, heads of 80 and 512 elements, a window larger
/// than the prompts.
#[test]
fn own_gemma4_whose_keys_are_values() {
    check_folder(&assets::own_fixture("gemma4_keys_are_values"));
}

/// A dense layer among layers of experts, weights that do not add up to 1, YaRN with whole pairs, f16 weights.
#[test]
fn own_qwen3_moe() {
    check_folder(&assets::own_fixture("qwen3_moe"));
}

/// One expert, in every second layer.
#[test]
fn own_qwen3_moe_of_one_expert() {
    check_folder(&assets::own_fixture("qwen3_moe_one_expert"));
}

/// All experts of a layer in one tensor.
#[test]
fn own_qwen3_moe_in_gguf() {
    let folder = assets::own_fixture("qwen3_moe_gguf");
    check_model(&folder.join("model.gguf"), &folder);
}

/// The published layout: blocks and scales apart, gate and up rows in turn; the older rope dialect.
#[test]
fn own_gpt_oss() {
    check_folder(&assets::own_fixture("gpt_oss"));
}

/// The same weights in ggml's blocks, gate and up apart.
#[test]
fn own_gpt_oss_in_gguf() {
    let folder = assets::own_fixture("gpt_oss");
    check_model(&folder.join("model.gguf"), &folder);
}

//! A row's bits depend on its tokens alone.

use longwick::engine::{EngineOptions, Request, RequestKind};
use longwick::ops::{DeviceChoice, KvDtype};

use crate::support::{
    assert_same, bits, generate, greedy_request, logits_request, run_all, run_together, tokens,
};
use crate::{assets, options};

/// Past one span of 256 keys and every window, and at no edge itself.
const LENGTH: usize = 300;
/// Below the smallest vocabulary here.
const VOCAB: usize = 259;
/// Each with two types of keys and values; the kernels' own tests take fp8, too, with and without windows.
const MODELS: [(&str, [KvDtype; 2]); 2] =
    [("qwen3", [KvDtype::F32, KvDtype::Fp8]), ("gemma3", [KvDtype::Bf16, KvDtype::Fp8])];

/// Logits on both sides of blocks, the window and a span, and a few tokens of output.
fn questions(prompt: &[u32]) -> Vec<Request> {
    let positions = [0, 15, 16, 40, 41, 255, 256, LENGTH - 1];
    vec![logits_request(prompt, &positions, 50), greedy_request(prompt, 4)]
}

fn load(model: &str, kv_dtype: KvDtype, chunk: usize, prefix_cache: bool) -> longwick::engine::Engine {
    let options = options(DeviceChoice::Emu, kv_dtype, chunk);
    assets::load(&assets::own_fixture(model), EngineOptions { prefix_cache, ..options })
}

/// In one chunk, alone.
fn plain(model: &str, kv_dtype: KvDtype, requests: &[Request]) -> Vec<Vec<u64>> {
    run_all(&mut load(model, kv_dtype, 512, false), requests)
}

#[test]
fn chunked() {
    let requests = questions(&tokens(1, LENGTH, VOCAB));
    for (model, dtypes) in MODELS {
        for dtype in dtypes {
            let expected = plain(model, dtype, &requests);
            for chunk in [7, 64] {
                let found = run_all(&mut load(model, dtype, chunk, true), &requests);
                assert_same(&found, &expected, &format!("{model}, {dtype:?}, chunks of {chunk}"));
            }
        }
    }
}

#[test]
fn beside_other_requests() {
    let prompt = tokens(2, LENGTH, VOCAB);
    let mut requests = vec![greedy_request(&tokens(3, 40, VOCAB), 12), greedy_request(&prompt[..90], 6)];
    requests.extend(questions(&prompt));
    for (model, dtypes) in MODELS {
        for dtype in dtypes {
            let expected = plain(model, dtype, &requests);
            let found = run_together(&mut load(model, dtype, 100, false), &requests);
            assert_same(&found, &expected, &format!("{model}, {dtype:?}"));
        }
    }
}

/// Branches of one prefix, which read its whole spans once where they decode in one step.
#[test]
fn branches_decoding_together() {
    let history = tokens(4, LENGTH, VOCAB);
    let branch = |seed: u64| {
        let prompt = [&history[..], &tokens(seed, 5, VOCAB)[..]].concat();
        let continuations = vec![vec![7, 8, 9], vec![11, 13]];
        [greedy_request(&prompt, 8), Request::new(prompt, RequestKind::Score { continuations })]
    };
    let requests: Vec<Request> = (5..8).flat_map(branch).collect();
    for (model, dtypes) in MODELS {
        for dtype in dtypes {
            let expected = plain(model, dtype, &requests);
            let mut engine = load(model, dtype, 128, true);
            engine.run(Request { boundaries: vec![LENGTH], ..greedy_request(&history, 1) }).unwrap();
            let found = run_together(&mut engine, &requests);
            assert_same(&found, &expected, &format!("{model}, {dtype:?}"));
        }
    }
}

/// A block that two sessions share is copied on the device before one of them writes it.
#[test]
fn forked_sessions() {
    let history = tokens(9, LENGTH, VOCAB);
    for (model, dtypes) in MODELS {
        for dtype in dtypes {
            let mut engine = load(model, dtype, 128, true);
            let session = engine.open_session(&history).unwrap();
            let fork = engine.fork_session(&session, LENGTH).unwrap();
            let tail = tokens(10, 21, VOCAB);
            engine.extend_session(&fork, &tail).unwrap();
            let expected = plain(
                model,
                dtype,
                &[greedy_request(&[&history[..], &tail[..]].concat(), 6), greedy_request(&history, 6)],
            );
            let found = [&fork, &session]
                .map(|session| bits(&engine.generate_on(session, generate(6)).unwrap().output));
            assert_same(&found, &expected, &format!("{model}, {dtype:?}"));
        }
    }
}

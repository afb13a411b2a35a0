//! The wide product of settings, on tiny checkpoints.

use std::path::PathBuf;

use longwick::engine::{EngineOptions, Request, RequestKind, RequestOutput};
use longwick::ops::KvDtype;

use crate::assets;
use crate::support::{
    LONG, OWN, assert_same, generate, greedy_request, load_with_blocks, logits_request, options,
    own_with_dtypes, plain, prefix_unit, questions, run, run_all, run_together, sampled, tokens,
};

/// Below the smallest vocabulary here.
const VOCAB: usize = 259;

pub fn shared() -> Vec<PathBuf> {
    let names = [
        "qwen3",
        "qwen3_moe",
        "qwen3_5",
        "gpt_oss",
        "gemma3",
        "gemma3_rope_linear",
        "gemma4",
        "gemma4_e2b_like",
        "gemma4_31b_like",
    ];
    names.iter().filter_map(|name| assets::shared_data(&format!("tiny/{name}"))).collect()
}

#[test]
fn chunk_sizes_and_threads() {
    let prompt = tokens(1, LONG, VOCAB);
    let requests = questions(&prompt);
    for (path, dtypes) in own_with_dtypes() {
        for dtype in dtypes {
            let expected = plain(&path, dtype, &requests);
            for (threads, chunk) in [(2, 512), (1, 7), (2, 16), (1, 64), (2, 64), (1, 300), (2, 300)] {
                let found = run_all(&mut assets::load(&path, options(dtype, threads, chunk)), &requests);
                let what = format!("{}, {dtype:?}, {threads} threads, chunks of {chunk}", path.display());
                assert_same(&found, &expected, &what);
            }
        }
    }
}

#[test]
fn chunk_sizes_on_shared_checkpoints() {
    let prompt = tokens(2, LONG, VOCAB);
    let requests = &questions(&prompt)[..2];
    for path in shared() {
        for (dtype, threads, chunk) in [(KvDtype::F32, 2, 300), (KvDtype::Bf16, 1, 16)] {
            let expected = plain(&path, dtype, requests);
            let found = run_all(&mut assets::load(&path, options(dtype, threads, chunk)), requests);
            assert_same(&found, &expected, &format!("{}, {dtype:?}, chunks of {chunk}", path.display()));
        }
    }
}

#[test]
fn one_token_a_step() {
    let prompt = tokens(3, 300, VOCAB);
    let requests = questions(&prompt);
    for (path, dtypes) in own_with_dtypes() {
        for dtype in dtypes {
            let expected = plain(&path, dtype, &requests);
            let found = run_all(&mut assets::load(&path, options(dtype, 2, 1)), &requests);
            assert_same(&found, &expected, &format!("{}, {dtype:?}", path.display()));
        }
    }
}

/// Larger blocks change where keys lie and nothing else.
#[test]
fn block_sizes() {
    let prompt = tokens(4, 700, VOCAB);
    let requests = questions(&prompt);
    for path in OWN.map(assets::own_fixture) {
        let expected = plain(&path, KvDtype::F32, &requests);
        for block_size in [32, 48, 256] {
            let options = EngineOptions { block_size, ..options(KvDtype::F32, 2, 100) };
            let found = run_all(&mut assets::load(&path, options), &requests);
            assert_same(&found, &expected, &format!("{}, blocks of {block_size}", path.display()));
        }
    }
}

#[test]
fn beside_other_requests() {
    let prompt = tokens(5, LONG, VOCAB);
    let mut requests: Vec<Request> = vec![
        greedy_request(&tokens(6, 40, VOCAB), 90),
        greedy_request(&prompt[..500], 60),
        Request::new(tokens(7, 700, VOCAB), RequestKind::Generate(sampled(50, 1))),
    ];
    requests.extend(questions(&prompt));
    requests.push(greedy_request(&[&prompt[..1_200], &tokens(8, 30, VOCAB)[..]].concat(), 20));
    requests.push(logits_request(&tokens(9, 1, VOCAB), &[0], 50));
    for (path, dtypes) in own_with_dtypes() {
        for dtype in dtypes {
            let expected = plain(&path, dtype, &requests);
            for (chunk, prefix_cache) in [(64, true), (300, false)] {
                let options = EngineOptions { prefix_cache, ..options(dtype, 2, chunk) };
                let mut engine = assets::load(&path, options);
                let found = run_together(&mut engine, &requests);
                let what = format!("{}, {dtype:?}, prefix cache {prefix_cache}", path.display());
                assert_same(&found, &expected, &what);
                assert_eq!(engine.kv_usage().referenced, 0, "{what}");
            }
        }
    }
}

#[test]
fn prefix_hits() {
    let prompt = tokens(10, LONG, VOCAB);
    let requests = questions(&prompt)[1..].to_vec();
    for (path, dtypes) in own_with_dtypes() {
        let expected = dtypes.map(|dtype| plain(&path, dtype, &requests));
        for (index, length) in
            [1, 16, 17, 41, 255, 256, 257, 1_000, 2_048, 2_500, LONG].into_iter().enumerate()
        {
            let (dtype, expected) = (dtypes[index % 2], &expected[index % 2]);
            let options = options(dtype, 2, 200);
            let mut engine = assets::load(&path, options.clone());
            let unit = prefix_unit(&engine, &options);
            engine.run(greedy_request(&prompt[..length], 1)).unwrap();
            let what = format!("{}, {dtype:?}, {length} tokens cached", path.display());
            let first = engine.run(requests[0].clone()).unwrap();
            assert_eq!(first.cached_tokens, length.min(LONG - 1) / unit * unit, "{what}");
            assert_eq!(first.cached_tokens + first.prefilled_tokens, LONG, "{what}");
            assert_same(&[crate::support::bits(&first.output)], &expected[..1], &what);
            assert_same(&run_all(&mut engine, &requests[1..]), &expected[1..], &what);
        }
    }
}

/// A longer prompt left its blocks; a branch that leaves it in the middle finds those of every window there.
#[test]
fn branches_in_mid_history() {
    let history = tokens(11, LONG, VOCAB);
    for path in OWN.map(assets::own_fixture) {
        let options = options(KvDtype::F32, 2, 256);
        let mut engine = assets::load(&path, options.clone());
        let unit = prefix_unit(&engine, &options);
        let places = [(12, 100), (13, 777), (14, 1_024), (15, 2_400)];
        let boundaries = places.map(|(_, at)| at).to_vec();
        engine.run(Request { boundaries, ..greedy_request(&history, 1) }).unwrap();
        for (seed, at) in places {
            let branch = [&history[..at], &tokens(seed, 60, VOCAB)[..]].concat();
            let request = greedy_request(&branch, 12);
            let expected = plain(&path, KvDtype::F32, std::slice::from_ref(&request));
            let completion = engine.run(request).unwrap();
            assert_eq!(completion.cached_tokens, at / unit * unit, "{}, branch at {at}", path.display());
            let found = [crate::support::bits(&completion.output)];
            assert_same(&found, &expected, &format!("{}, branch at {at}", path.display()));
        }
    }
}

/// Three outputs outgrow what admission reserved for them, so that younger ones are computed again.
#[test]
fn preemption() {
    const NEW: usize = 300;
    let requests = [
        greedy_request(&tokens(16, LONG, VOCAB), NEW),
        greedy_request(&tokens(17, 650, VOCAB), NEW),
        Request::new(tokens(18, 300, VOCAB), RequestKind::Generate(sampled(NEW, 3))),
    ];
    for (path, dtypes) in own_with_dtypes() {
        for dtype in dtypes {
            let expected = plain(&path, dtype, &requests);
            let mut engine = load_with_blocks(&path, options(dtype, 2, 16), |plan| {
                [LONG, 650, 300].iter().map(|prompt| plan.blocks_held(prompt + 130, 16)).sum()
            });
            let found = run_together(&mut engine, &requests);
            let what = format!("{}, {dtype:?}", path.display());
            assert!(engine.stats().preemptions > 0, "{what}: nothing was preempted");
            assert_same(&found, &expected, &what);
            assert_eq!(engine.kv_usage().referenced, 0, "{what}");
        }
    }
}

#[test]
fn generated_tokens_prefilled_again() {
    let prompt = tokens(19, LONG, VOCAB);
    for (path, dtypes) in own_with_dtypes() {
        for dtype in dtypes {
            for params in [generate(40), sampled(40, 8)] {
                let mut engine = assets::load(&path, options(dtype, 2, 512));
                let request = Request::new(prompt.clone(), RequestKind::Generate(params));
                let output = engine.run(request).unwrap().output;
                let RequestOutput::Generated { token_ids, logprobs, .. } = output else {
                    panic!("{output:?}")
                };
                assert_eq!((token_ids.len(), logprobs.len()), (40, 40));
                let whole = [&prompt[..], &token_ids[..]].concat();
                let positions: Vec<usize> = (LONG - 1..LONG + 39).collect();
                // Once from the cache the generation left behind, once computed from nothing.
                for mut engine in [engine, assets::load(&path, options(dtype, 1, 300))] {
                    let request = logits_request(&whole, &positions, engine.config().vocab_size);
                    let output = engine.run(request).unwrap().output;
                    let RequestOutput::Logits(found) = output else { panic!("{output:?}") };
                    for ((token, logprob), found) in token_ids.iter().zip(&logprobs).zip(&found) {
                        let place =
                            found.ids.iter().position(|id| id == token).expect("the whole vocabulary");
                        let (again, position) = (found.logprobs[place], found.position);
                        assert_eq!(again.to_bits(), logprob.to_bits(), "{}, {position}", path.display());
                    }
                }
            }
        }
    }
}

/// The three ways to ask for a log-probability agree: while generating, by score, and at a position.
#[test]
fn scores_are_the_logprobs_of_generation() {
    let prompt = tokens(20, 600, VOCAB);
    for path in OWN.map(assets::own_fixture) {
        let mut engine = assets::load(&path, options(KvDtype::F32, 2, 128));
        let output = engine.run(greedy_request(&prompt, 18)).unwrap().output;
        let RequestOutput::Generated { token_ids, logprobs, .. } = output else { panic!("{output:?}") };
        let kind = RequestKind::Score { continuations: vec![token_ids, vec![5]] };
        let output = engine.run(Request::new(prompt.clone(), kind)).unwrap().output;
        let RequestOutput::Scored(scores) = output else { panic!("{output:?}") };
        let sum: f64 = logprobs.iter().map(|&logprob| f64::from(logprob)).sum();
        assert_eq!(scores.choices[0].sum.to_bits(), sum.to_bits(), "{}", path.display());
        let single = logits_request(&prompt, &[599], engine.config().vocab_size);
        let output = engine.run(single).unwrap().output;
        let RequestOutput::Logits(found) = output else { panic!("{output:?}") };
        let place = found[0].ids.iter().position(|&id| id == 5).expect("the whole vocabulary");
        assert_eq!(scores.choices[1].sum, f64::from(found[0].logprobs[place]), "{}", path.display());
    }
}

/// The engine that answered another prompt first gives what a fresh one gives.
#[test]
fn earlier_prompts_leave_no_trace() {
    let request = greedy_request(&tokens(21, 500, VOCAB), 30);
    for path in OWN.map(assets::own_fixture) {
        let expected = plain(&path, KvDtype::F32, std::slice::from_ref(&request));
        let mut engine =
            load_with_blocks(&path, options(KvDtype::F32, 1, 64), |plan| plan.blocks_held(900, 64));
        for seed in 22..27 {
            engine.run(greedy_request(&tokens(seed, 800, VOCAB), 5)).unwrap();
        }
        assert_same(&[run(&mut engine, &request)], &expected, &format!("{}", path.display()));
    }
}

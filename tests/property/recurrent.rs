//! Models with recurrent states: snapshots, scarce slots, forks, sessions.

use std::path::PathBuf;

use longwick::engine::{Engine, EngineError, EngineOptions, Request, RequestKind};
use longwick::ops::KvDtype;

use crate::assets;
use crate::support::{
    assert_same, bits, generate, greedy_request, logits_request, options, plain, plan, questions, run,
    run_all, run_together, sampled, tokens,
};

const VOCAB: usize = 259;

fn models() -> Vec<PathBuf> {
    let own = assets::own_fixture("qwen3_5");
    [own].into_iter().chain(assets::shared_data("tiny/qwen3_5")).collect()
}

/// Options under which the engine has exactly `slots` state slots.
fn with_slots(path: &std::path::Path, options: EngineOptions, slots: usize) -> EngineOptions {
    let plan = plan(&assets::load(path, options.clone()), &options);
    let bytes = plan.states.expect("a model with states").slot_bytes();
    EngineOptions { state_pool_bytes: Some((slots * bytes) as u64), ..options }
}

#[test]
fn chunk_sizes() {
    let prompt = tokens(201, 700, VOCAB);
    let requests = questions(&prompt);
    for path in models() {
        for dtype in [KvDtype::F32, KvDtype::Fp8] {
            let expected = plain(&path, dtype, &requests);
            for (threads, chunk) in [(1, 1), (2, 7), (2, 16), (1, 64), (2, 300)] {
                let found = run_all(&mut assets::load(&path, options(dtype, threads, chunk)), &requests);
                assert_same(&found, &expected, &format!("{}, {dtype:?}, {chunk}", path.display()));
            }
        }
    }
}

#[test]
fn hits_at_each_message_end() {
    let history = tokens(202, 1_500, VOCAB);
    let ends = [1, 63, 64, 65, 128, 200, 511, 960, 1_279, 1_500];
    for path in models() {
        for chunk in [7, 64, 300] {
            let mut engine = assets::load(&path, options(KvDtype::F32, 2, chunk));
            engine.run(Request { boundaries: ends.to_vec(), ..greedy_request(&history, 1) }).unwrap();
            for (index, &end) in ends.iter().enumerate() {
                let what = format!("{}, chunks of {chunk}, branch at {end}", path.display());
                let branch = [&history[..end], &tokens(210 + index as u64, 70, VOCAB)[..]].concat();
                let request = greedy_request(&branch, 8);
                let expected = plain(&path, KvDtype::F32, std::slice::from_ref(&request));
                let completion = engine.run(request).unwrap();
                assert_eq!(completion.cached_tokens, end / 64 * 64, "{what}");
                assert_same(&[bits(&completion.output)], &expected, &what);
            }
        }
    }
}

/// Without message ends, snapshots lie at the interval and at the end.
#[test]
fn hits_at_intervals() {
    let history = tokens(203, 1_000, VOCAB);
    for path in models() {
        for block_size in [16, 48, 256] {
            let options = EngineOptions { snapshot_tokens: 300, block_size, ..options(KvDtype::F32, 2, 200) };
            let mut engine = assets::load(&path, options.clone());
            engine.run(greedy_request(&history, 1)).unwrap();
            let unit = plan(&engine, &options).snapshot_unit();
            let interval = 300_usize.next_multiple_of(unit);
            for (seed, at) in [(220, 250), (221, 650), (222, 830), (223, 999)] {
                let branch = [&history[..at], &tokens(seed, 20, VOCAB)[..]].concat();
                let request = greedy_request(&branch, 4);
                let expected = plain(&path, KvDtype::F32, std::slice::from_ref(&request));
                let completion = engine.run(request).unwrap();
                let what = format!("{}, blocks of {block_size}, branch at {at}", path.display());
                let end = Some(1_000 / unit * unit).filter(|&end| end <= at).unwrap_or(0);
                assert_eq!(completion.cached_tokens, (at / interval * interval).max(end), "{what}");
                assert_same(&[bits(&completion.output)], &expected, &what);
            }
        }
    }
}

/// One waits for the other's prefix, and starts from a snapshot that is made where they part.
#[test]
fn requests_that_wait_for_a_prefix_find_a_snapshot_where_they_part() {
    let history = tokens(204, 900, VOCAB);
    for path in models() {
        let requests: Vec<Request> = [(230, 700), (231, 500)]
            .map(|(seed, at)| greedy_request(&[&history[..at], &tokens(seed, 90, VOCAB)[..]].concat(), 6))
            .into();
        let expected = plain(&path, KvDtype::F32, &requests);
        let mut engine = assets::load(&path, options(KvDtype::F32, 2, 100));
        assert_same(&run_together(&mut engine, &requests), &expected, &path.display().to_string());
        assert_eq!(engine.stats().cached_tokens, 500 / 64 * 64, "{}", path.display());
    }
}

/// From the least number of slots on, every mix of requests comes to its end with the same bits.
#[test]
fn scarce_slots() {
    let prompt = tokens(205, 400, VOCAB);
    let mut requests = questions(&prompt);
    requests.push(greedy_request(&[&prompt[..200], &tokens(240, 50, VOCAB)[..]].concat(), 90));
    requests.push(Request::new(tokens(241, 150, VOCAB), RequestKind::Generate(sampled(80, 2))));
    requests.push(logits_request(&tokens(242, 300, VOCAB), &[0, 63, 64, 299], 20));
    for path in models() {
        let expected = plain(&path, KvDtype::F32, &requests);
        for (slots, chunk) in [(3, 64), (3, 300), (4, 7), (5, 64), (7, 100), (12, 300)] {
            let options = EngineOptions { snapshot_tokens: 64, ..options(KvDtype::F32, 2, chunk) };
            let mut engine = assets::load(&path, with_slots(&path, options, slots));
            let what = format!("{}, {slots} slots, chunks of {chunk}", path.display());
            assert_same(&run_together(&mut engine, &requests), &expected, &what);
            let usage = engine.state_usage();
            assert_eq!((usage.total, usage.referenced), (slots, 0), "{what}");
            assert_eq!(engine.kv_usage().referenced, 0, "{what}");
        }
    }
}

#[test]
fn too_few_slots_are_refused_with_the_numbers() {
    let path = assets::own_fixture("qwen3_5");
    let options = with_slots(&path, options(KvDtype::F32, 1, 64), 2);
    let error = Engine::load(&path, options, &mut |_, _| {}).err().expect("two slots are too few");
    let EngineError::Setting { setting: "state_pool_bytes", reason } = error else { panic!("{error:?}") };
    assert!(reason.contains("hold 2 state slots") && reason.contains("needs 3"), "{reason}");
}

/// Forks at every place of a chunk: the pending tokens are copied before one of them writes.
#[test]
fn forks_within_a_chunk() {
    for path in models() {
        let mut engine = assets::load(&path, options(KvDtype::F32, 1, 100));
        for length in [1, 63, 64, 65, 127, 128, 129, 250] {
            let history = tokens(206, length, VOCAB);
            let session = engine.open_session(&history).unwrap();
            let branches: Vec<_> = (0..3).map(|_| engine.fork_session(&session, length).unwrap()).collect();
            let extensions: Vec<Vec<u32>> =
                [1, 2, 64].into_iter().map(|count| tokens(250 + count as u64, count, VOCAB)).collect();
            for (branch, extension) in branches.iter().zip(&extensions) {
                engine.extend_session(branch, extension).unwrap();
            }
            // Once more, so that what a branch wrote is read back.
            for branch in &branches {
                engine.extend_session(branch, &tokens(260, 5, VOCAB)).unwrap();
            }
            for (branch, extension) in branches.into_iter().zip(&extensions) {
                let whole = [&history[..], extension, &tokens(260, 5, VOCAB)[..]].concat();
                let what = format!("{}, {length} and {} tokens", path.display(), extension.len());
                assert_eq!(engine.session_tokens(&branch).unwrap(), whole, "{what}");
                let expected = plain(&path, KvDtype::F32, &[greedy_request(&whole, 5)]);
                // A fork is computed from what the session holds, the request from the cache.
                let scored = engine.score_on(&branch, vec![vec![5, 6, 7], vec![9; 70]]).unwrap();
                let kind = RequestKind::Score { continuations: vec![vec![5, 6, 7], vec![9; 70]] };
                let alone = plain(&path, KvDtype::F32, &[Request::new(whole.clone(), kind)]);
                assert_same(&[bits(&scored.output)], &alone, &what);
                let found = bits(&engine.generate_on(&branch, generate(5)).unwrap().output);
                assert_same(&[found], &expected, &what);
                engine.close_session(branch);
            }
            engine.close_session(session);
        }
        assert_eq!(engine.state_usage().referenced, 0, "{}", path.display());
    }
}

/// Sessions that hold the state slots are named; given back, what waited runs.
#[test]
fn sessions_that_hold_the_slots_are_named() {
    let path = assets::own_fixture("qwen3_5");
    let options = with_slots(&path, options(KvDtype::F32, 1, 64), 4);
    let mut engine = assets::load(&path, options);
    let session = engine.open_session(&tokens(207, 100, VOCAB)).unwrap();
    let request = greedy_request(&tokens(208, 100, VOCAB), 3);
    let id = engine.submit(request.clone()).unwrap();
    match engine.step() {
        Err(EngineError::PoolHeldBySessions { resource: "state slots", needed, available, total }) => {
            assert_eq!((needed, available, total), (3, 2, 4));
        }
        other => panic!("{other:?}"),
    }
    let fork = engine.fork_session(&session, 100).unwrap();
    engine.extend_session(&fork, &tokens(209, 40, VOCAB)).unwrap();
    let third = engine.fork_session(&session, 100).unwrap();
    let error = engine.extend_session(&third, &tokens(210, 40, VOCAB)).unwrap_err();
    assert!(matches!(error, EngineError::PoolHeldBySessions { resource: "state slots", .. }), "{error:?}");
    for session in [session, fork, third] {
        engine.close_session(session);
    }
    let mut found = Vec::new();
    while engine.has_work() {
        found.extend(engine.step().unwrap());
    }
    assert_eq!(found.len(), 1);
    let alone = run(&mut assets::load(&path, crate::support::options(KvDtype::F32, 1, 64)), &request);
    assert_eq!((found[0].id, bits(&found[0].output)), (id, alone));
    assert_eq!(engine.state_usage().referenced, 0);
}

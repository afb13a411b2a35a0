//! The properties on wide heads in odd numbers, and prefix hits at every block of every checkpoint.

use std::path::PathBuf;

use longwick::engine::{Request, RequestKind};
use longwick::ops::KvDtype;

use crate::assets;
use crate::drawn::{SHAPES, drawn_fixture};
use crate::support::{
    LONG, OWN, Random, assert_same, bits, generate, greedy_request, load_with_blocks, logits_request,
    options, plain, prefix_unit, questions, run, run_all, run_together, sampled, tokens,
};

const VOCAB: usize = 259;

/// The drawn checkpoints, with each type of cached keys and values in turn.
pub fn shapes() -> impl Iterator<Item = (PathBuf, KvDtype)> {
    SHAPES.iter().map(|name| drawn_fixture(name)).zip(KvDtype::ALL.into_iter().cycle())
}

/// A question about the positions of all edges, and a generation.
fn two_questions(prompt: &[u32]) -> Vec<Request> {
    questions(prompt).into_iter().take(2).collect()
}

#[test]
fn chunk_sizes() {
    let (long, short) = (tokens(301, LONG, VOCAB), tokens(302, 300, VOCAB));
    for (path, dtype) in shapes() {
        for (prompt, chunks) in [(&short, &[1][..]), (&long, &[7, 16, 64, 300])] {
            let requests = two_questions(prompt);
            let expected = plain(&path, dtype, &requests);
            for &chunk in chunks {
                let found = run_all(&mut assets::load(&path, options(dtype, 2, chunk)), &requests);
                assert_same(&found, &expected, &format!("{}, {dtype:?}, chunks of {chunk}", path.display()));
            }
        }
    }
}

#[test]
fn beside_other_requests() {
    let prompt = tokens(303, 1_300, VOCAB);
    let mut requests = questions(&prompt);
    requests.push(greedy_request(&tokens(304, 40, VOCAB), 60));
    requests.push(greedy_request(&[&prompt[..777], &tokens(305, 30, VOCAB)[..]].concat(), 20));
    requests.push(Request::new(tokens(306, 500, VOCAB), RequestKind::Generate(sampled(30, 1))));
    for (path, dtype) in shapes() {
        let expected = plain(&path, dtype, &requests);
        let mut engine = assets::load(&path, options(dtype, 2, 300));
        assert_same(&run_together(&mut engine, &requests), &expected, &path.display().to_string());
        assert_eq!(engine.kv_usage().referenced, 0, "{}", path.display());
    }
}

/// A history that ends in mid-block, left at the end of each of its blocks, by every checkpoint.
#[test]
fn prefix_hits_at_each_block_boundary() {
    const BLOCKS: usize = 34;
    let history = tokens(307, 16 * BLOCKS + 5, VOCAB);
    let own = OWN.iter().map(|name| (assets::own_fixture(name), KvDtype::F32));
    for (path, dtype) in own.chain(shapes()) {
        let options = options(dtype, 2, 100);
        let mut engine = assets::load(&path, options.clone());
        let unit = prefix_unit(&engine, &options);
        let ends: Vec<usize> = (1..=BLOCKS).map(|blocks| 16 * blocks).collect();
        engine.run(Request { boundaries: ends.clone(), ..greedy_request(&history, 1) }).unwrap();
        let branches: Vec<Request> = ends
            .iter()
            .map(|&end| {
                // Its first token is not the history's, so that the hit ends there.
                let first = if history[end] == 9 { 10 } else { 9 };
                let tail = tokens(308 + end as u64, 7, VOCAB);
                greedy_request(&[&history[..end], &[first], &tail[..]].concat(), 3)
            })
            .collect();
        let expected = plain(&path, dtype, &branches);
        for ((request, expected), end) in branches.into_iter().zip(expected).zip(ends) {
            let what = format!("{}, {dtype:?}, branch at {end}", path.display());
            let completion = engine.run(request).unwrap();
            assert_eq!(completion.cached_tokens, end / unit * unit, "{what}");
            assert_same(&[bits(&completion.output)], &[expected], &what);
        }
    }
}

#[test]
fn forks_at_random_positions() {
    let history = tokens(309, 700, VOCAB);
    for (path, dtype) in shapes() {
        let mut random = Random::new(310);
        let mut engine = assets::load(&path, options(dtype, 2, 170));
        let session = engine.open_session(&history).unwrap();
        for index in 0..5 {
            let at = 1 + random.below(history.len() - 1);
            let branch = engine.fork_session(&session, at).unwrap();
            let tail = tokens(311 + index, 1 + 23 * index as usize, VOCAB);
            engine.extend_session(&branch, &tail).unwrap();
            let whole = [&history[..at], &tail[..]].concat();
            let requests = [logits_request(&whole, &[whole.len() - 1], 50), greedy_request(&whole, 9)];
            let expected = plain(&path, dtype, &requests);
            let generated = bits(&engine.generate_on(&branch, generate(9)).unwrap().output);
            let found = [run(&mut engine, &requests[0]), generated];
            assert_same(&found, &expected, &format!("{}, {dtype:?}, fork at {at}", path.display()));
            engine.close_session(branch);
        }
        engine.close_session(session);
        assert_eq!(engine.kv_usage().referenced, 0, "{}", path.display());
    }
}

/// Outputs that outgrow what admission reserved for them.
#[test]
fn preempted_and_recomputed() {
    // Where most layers slide, a longer output needs few blocks more: one of this length needs enough of them.
    const NEW: usize = 500;
    let requests = [
        greedy_request(&tokens(320, 900, VOCAB), NEW),
        greedy_request(&tokens(321, 400, VOCAB), NEW),
        Request::new(tokens(322, 300, VOCAB), RequestKind::Generate(sampled(NEW, 3))),
    ];
    for (path, dtype) in shapes() {
        let expected = plain(&path, dtype, &requests);
        let mut engine = load_with_blocks(&path, options(dtype, 2, 16), |plan| {
            [900, 400, 300].iter().map(|prompt| plan.blocks_held(prompt + 130, 16)).sum()
        });
        let found = run_together(&mut engine, &requests);
        let what = format!("{}, {dtype:?}", path.display());
        assert_same(&found, &expected, &what);
        assert!(engine.stats().preemptions > 0, "{what}: nothing was preempted");
        assert_eq!(engine.kv_usage().referenced, 0, "{what}");
    }
}

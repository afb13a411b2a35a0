//! Sessions and their forks give what the same tokens give as one prompt.

use longwick::engine::{Engine, Session};
use longwick::ops::KvDtype;

use crate::assets;
use crate::support::{
    OWN, Random, assert_same, bits, generate, greedy_request, logits_request, options, own_with_dtypes,
    plain, prefix_unit, run, tokens,
};

const VOCAB: usize = 259;
const HISTORY: usize = 2_501;

/// Last-position logits and a short generation on a branch, against the plain run of its tokens.
fn check_branch(engine: &mut Engine, branch: &Session, path: &std::path::Path, dtype: KvDtype, what: &str) {
    let whole = engine.session_tokens(branch).unwrap().to_vec();
    let requests = [logits_request(&whole, &[whole.len() - 1], 50), greedy_request(&whole, 9)];
    let expected = plain(path, dtype, &requests);
    let logits = run(engine, &requests[0]);
    let generated = bits(&engine.generate_on(branch, generate(9)).unwrap().output);
    assert_same(&[logits, generated], &expected, what);
}

#[test]
fn forks_at_random_positions_and_at_the_end() {
    let history = tokens(31, HISTORY, VOCAB);
    for (path, dtypes) in own_with_dtypes() {
        for dtype in dtypes {
            let mut random = Random::new(32);
            let mut engine = assets::load(&path, options(dtype, 2, 170));
            let session = engine.open_session(&history).unwrap();
            let mut places = vec![HISTORY, HISTORY, 2_496, 256];
            places.extend((0..2).map(|_| 1 + random.below(HISTORY - 1)));
            for (index, at) in places.into_iter().enumerate() {
                let what = format!("{}, {dtype:?}, fork at {at}", path.display());
                let branch = engine.fork_session(&session, at).unwrap();
                assert_eq!(engine.session_tokens(&branch).unwrap(), &history[..at], "{what}");
                engine.extend_session(&branch, &tokens(40 + index as u64, 1 + 37 * index, VOCAB)).unwrap();
                check_branch(&mut engine, &branch, &path, dtype, &what);
                engine.close_session(branch);
            }
            // What the branches wrote did not touch the session.
            check_branch(&mut engine, &session, &path, dtype, "the session itself");
            engine.close_session(session);
            assert_eq!(engine.kv_usage().referenced, 0, "{}", path.display());
        }
    }
}

/// Branches write into copies of the partly filled block they share. Once that block is full it is listed in the
/// prefix cache, so that the comparison reads what the copy holds.
#[test]
fn branches_copy_the_block_they_share() {
    let history = tokens(33, 133, VOCAB);
    for path in OWN.map(assets::own_fixture) {
        let options = options(KvDtype::F32, 1, 64);
        let mut engine = assets::load(&path, options.clone());
        let unit = prefix_unit(&engine, &options);
        let session = engine.open_session(&history).unwrap();
        let branches: Vec<Session> =
            (0..3).map(|_| engine.fork_session(&session, history.len()).unwrap()).collect();
        let held = engine.kv_usage().referenced;
        for (index, branch) in branches.iter().enumerate() {
            engine.extend_session(branch, &tokens(50 + index as u64, 5, VOCAB)).unwrap();
        }
        assert!(engine.kv_usage().referenced > held, "the branches got blocks of their own");
        for (index, branch) in branches.iter().enumerate() {
            engine.extend_session(branch, &tokens(60 + index as u64, 30, VOCAB)).unwrap();
        }
        for (index, branch) in branches.iter().enumerate() {
            let what = format!("{}, branch {index}", path.display());
            let completion = engine.generate_on(branch, generate(1)).unwrap();
            assert_eq!(completion.cached_tokens, 167 / unit * unit, "{what}");
            check_branch(&mut engine, branch, &path, KvDtype::F32, &what);
        }
        for session in branches.into_iter().chain([session]) {
            engine.close_session(session);
        }
        assert_eq!(engine.kv_usage().referenced, 0);
    }
}

/// A session extended piece by piece, and a fork of a fork.
#[test]
fn extensions_and_nested_forks() {
    let history = tokens(34, 900, VOCAB);
    for path in OWN.map(assets::own_fixture) {
        let mut engine = assets::load(&path, options(KvDtype::F32, 2, 100));
        let session = engine.open_session(&[]).unwrap();
        for piece in history.chunks(113) {
            engine.extend_session(&session, piece).unwrap();
        }
        let branch = engine.fork_session(&session, 900).unwrap();
        engine.extend_session(&branch, &tokens(35, 41, VOCAB)).unwrap();
        let nested = engine.fork_session(&branch, 941).unwrap();
        engine.extend_session(&nested, &tokens(36, 3, VOCAB)).unwrap();
        engine.extend_session(&branch, &tokens(37, 2, VOCAB)).unwrap();
        let name = path.display().to_string();
        for (session, what) in [(session, "session"), (branch, "branch"), (nested, "nested")] {
            check_branch(&mut engine, &session, &path, KvDtype::F32, &format!("{name}, {what}"));
            engine.close_session(session);
        }
        assert_eq!(engine.kv_usage().referenced, 0);
    }
}

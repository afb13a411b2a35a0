//! What one process saved goes on in another, bit for bit.

use std::path::{Path, PathBuf};
use std::process::Command;

use longwick::engine::{EngineOptions, KvDirectoryOptions};
use longwick::ops::KvDtype;
use serde::{Deserialize, Serialize};

use crate::assets;
use crate::support::{
    OWN, assert_same, bits, generate, greedy_request, logits_request, options, plain, prefix_unit, questions,
    run_all, tokens,
};

const VOCAB: usize = 259;
const HISTORY: usize = 2_563;
const ORDER: &str = "LONGWICK_TEST_CHILD";

/// What the other process is asked to do.
#[derive(Serialize, Deserialize)]
struct Order {
    checkpoint: PathBuf,
    dtype: KvDtype,
    /// The session files to go on with.
    sessions: Vec<PathBuf>,
    /// The folder of prefixes.
    directory: PathBuf,
    /// Where the answer goes.
    answer: PathBuf,
}

/// What the other process found.
#[derive(Serialize, Deserialize)]
struct Answer {
    /// For each session: logits after it, then a continuation.
    sessions: Vec<Vec<Vec<u64>>>,
    /// For each prompt kept in the folder: its results.
    prompts: Vec<Vec<Vec<u64>>>,
    /// Tokens of these prompts that the engine found, and that it computed.
    cached: Vec<usize>,
    prefilled: Vec<usize>,
}

fn with_directory(dtype: KvDtype, chunk: usize, folder: &Path) -> EngineOptions {
    let directory = KvDirectoryOptions { folder: folder.to_owned(), max_bytes: u64::MAX };
    EngineOptions { kv_directory: Some(directory), ..options(dtype, 2, chunk) }
}

fn prompts() -> [Vec<u32>; 3] {
    let history = tokens(61, HISTORY, VOCAB);
    [history.clone(), [&history[..2_100], &tokens(62, 77, VOCAB)].concat(), tokens(63, 100, VOCAB)]
}

/// The other process: it knows nothing but the files.
#[test]
fn child() {
    let Some(order) = std::env::var_os(ORDER) else {
        println!("nothing asked for: this is the other half of {ORDER}");
        return;
    };
    let order: Order = serde_json::from_slice(&std::fs::read(order).unwrap()).unwrap();
    let mut sessions = Vec::new();
    let mut engine = assets::load(&order.checkpoint, options(order.dtype, 1, 130));
    for file in &order.sessions {
        let session = engine.restore_session(file).unwrap();
        assert_eq!(engine.stats().prefilled_tokens, 0, "a restored session is not computed");
        let branch = engine.fork_session(&session, engine.session_tokens(&session).unwrap().len()).unwrap();
        engine.extend_session(&branch, &tokens(64, 40, VOCAB)).unwrap();
        let whole = engine.session_tokens(&branch).unwrap().to_vec();
        let logits = engine.run(logits_request(&whole, &[whole.len() - 1], 50)).unwrap();
        let generated = engine.generate_on(&branch, generate(9)).unwrap();
        sessions.push(vec![bits(&logits.output), bits(&generated.output)]);
        engine = assets::load(&order.checkpoint, options(order.dtype, 1, 130));
    }
    let mut answer = Answer { sessions, prompts: Vec::new(), cached: Vec::new(), prefilled: Vec::new() };
    for prompt in prompts() {
        let mut engine = assets::load(&order.checkpoint, with_directory(order.dtype, 64, &order.directory));
        let first = engine.run(greedy_request(&prompt, 5)).unwrap();
        answer.cached.push(first.cached_tokens);
        answer.prefilled.push(first.prefilled_tokens);
        answer.prompts.push(run_all(&mut engine, &questions(&prompt)[1..]));
        let usage = engine.stats().kv_directory;
        assert_eq!((usage.restored_tokens, usage.files_written), (first.cached_tokens as u64, 0));
    }
    std::fs::write(&order.answer, serde_json::to_vec(&answer).unwrap()).unwrap();
}

fn in_another_process(order: &Order, folder: &Path) -> Answer {
    let file = folder.join("order.json");
    std::fs::write(&file, serde_json::to_vec(order).unwrap()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "persist::child"]).env(ORDER, &file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&std::fs::read(&order.answer).unwrap()).unwrap()
}

fn check(checkpoint: &Path, dtype: KvDtype) {
    let folder = tempfile::tempdir().unwrap();
    let what = format!("{}, {dtype:?}", checkpoint.display());
    let lengths = [HISTORY, 2_048, 133, 9];
    let history = tokens(61, HISTORY, VOCAB);
    let mut engine = assets::load(checkpoint, options(dtype, 2, 200));
    let mut order = Order {
        checkpoint: checkpoint.to_owned(),
        dtype,
        sessions: Vec::new(),
        directory: folder.path().join("prefixes"),
        answer: folder.path().join("answer.json"),
    };
    for length in lengths {
        let session = engine.open_session(&history[..length]).unwrap();
        let file = folder.path().join(format!("{length}.kv"));
        engine.save_session(&session, &file).unwrap();
        order.sessions.push(file);
        engine.close_session(session);
    }
    let options = with_directory(dtype, 200, &order.directory);
    let mut engine = assets::load(checkpoint, options.clone());
    let unit = prefix_unit(&engine, &options);
    for prompt in prompts() {
        engine.run(greedy_request(&prompt, 1)).unwrap();
    }
    let answer = in_another_process(&order, folder.path());
    for (length, found) in lengths.into_iter().zip(&answer.sessions) {
        let whole = [&history[..length], &tokens(64, 40, VOCAB)].concat();
        let requests = [logits_request(&whole, &[whole.len() - 1], 50), greedy_request(&whole, 9)];
        assert_same(found, &plain(checkpoint, dtype, &requests), &format!("{what}, session of {length}"));
    }
    for (index, prompt) in prompts().iter().enumerate() {
        let expected = (prompt.len() - 1) / unit * unit;
        assert_eq!(answer.cached[index], expected, "{what}, prompt {index}");
        assert_eq!(answer.prefilled[index], prompt.len() - expected, "{what}, prompt {index}");
        let expected = plain(checkpoint, dtype, &questions(prompt)[1..]);
        assert_same(&answer.prompts[index], &expected, &format!("{what}, prompt {index}"));
    }
}

#[test]
fn saved_and_restored_in_another_process() {
    for (index, path) in OWN.map(assets::own_fixture).iter().enumerate() {
        check(path, KvDtype::ALL[index % 3]);
    }
}

#[test]
fn saved_and_restored_drawn_checkpoints() {
    for (path, dtype) in crate::shapes::shapes() {
        check(&path, dtype);
    }
}

#[test]
fn saved_and_restored_shared_checkpoints() {
    for path in crate::tiny::shared() {
        check(&path, KvDtype::F32);
    }
}

/// Files of another model, or of another element type, are refused by name.
#[test]
fn files_of_another_engine_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.kv");
    let [first, second] = ["qwen3", "llama"].map(assets::own_fixture);
    let mut engine = assets::load(&first, options(KvDtype::F32, 1, 64));
    let session = engine.open_session(&tokens(1, 100, VOCAB)).unwrap();
    engine.save_session(&session, &file).unwrap();
    for (path, dtype, field) in [
        (&second, KvDtype::F32, "weight digest"),
        (&first, KvDtype::Bf16, "arithmetic"),
        (&first, KvDtype::Fp8, "arithmetic"),
    ] {
        let mut other = assets::load(path, options(dtype, 1, 64));
        let error = other.restore_session(&file).unwrap_err().to_string();
        assert!(error.contains(&format!("saved with another {field}")), "{error}");
        assert_eq!(other.kv_usage().referenced, 0);
    }
}

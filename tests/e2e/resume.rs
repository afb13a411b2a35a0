//! Killed, interrupted, and run again.

use super::bench::{Bench, CONFIG, Ended};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONTEXT: usize = 8192;

#[test]
fn killed_at_ten_random_moments_a_run_comes_to_the_same_files() {
    let bench = Bench::new(CONTEXT, 3);
    let began = Instant::now();
    assert_eq!(bench.run(&bench.config("whole.toml", "whole", CONFIG), &[]).code, Some(0));
    let whole = began.elapsed();
    let config = bench.config("killed.toml", "killed", CONFIG);
    // Moments differ from test run to test run; they are printed, so that a failure can be looked into.
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let mut random = u64::from(seed) | 1;
    for round in 0..10 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let moment = whole.mul_f64((random % 1000) as f64 / 1000.0 * 0.6);
        eprintln!("kill {round} after {moment:?}");
        kill_after(&bench, &config, moment);
    }
    let ended = bench.run(&config, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(bench.exports("whole"), bench.exports("killed"));
}

/// Starts a run and kills it with SIGKILL at the moment, unless it has ended before.
fn kill_after(bench: &Bench, config: &Path, moment: Duration) {
    let mut child = bench.command(config, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The moment itself is what is tested, so this waits for the clock and for nothing else.
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_interrupted_run_says_how_to_go_on_and_comes_to_the_same_files() {
    let bench = Bench::new(CONTEXT, 3);
    assert_eq!(bench.run(&bench.config("whole.toml", "whole", CONFIG), &[]).code, Some(0));
    let config = bench.config("stopped.toml", "stopped", CONFIG);
    let mut child =
        bench.command(&config, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    // The first model line says that work has begun.
    while !text.contains("KV pool") {
        assert!(stderr.read_line(&mut text).unwrap() > 0, "{text}");
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    while stderr.read_line(&mut text).unwrap() > 0 {}
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(2), "{text}");
    assert!(text.contains("To go on: longwick run") && text.contains("stopped.toml"), "{text}");
    assert!(bench.exports("stopped").is_empty());
    let resumed = bench.run(&config, &[]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert_eq!(bench.exports("whole"), bench.exports("stopped"));
}

#[test]
fn the_date_is_that_of_the_runs_creation() {
    let bench = Bench::new(CONTEXT, 1);
    let undated = CONFIG.replace("date = \"2026-01-15\"\n", "");
    let config = bench.config("c.toml", "out", &undated);
    let first = bench.run(&config, &[]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let date = |ended: &Ended| {
        ended.stdout.lines().find(|line| line.starts_with("date in templates")).map(str::to_owned)
    };
    let kept = date(&first).unwrap();
    let second = bench.run(&config, &[]);
    assert_eq!(date(&second).unwrap(), kept);
    // The line is about all sessions of the run.
    assert_eq!(second.prefill(), first.prefill());
}

#[test]
fn two_processes_do_not_work_on_one_run() {
    let bench = Bench::new(CONTEXT, 1);
    let config = bench.config("c.toml", "out", CONFIG);
    let held = longwick::store::RunStore::open(&bench.path().join("out/tiny")).unwrap();
    let refused = bench.run(&config, &[]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("in use by another process"), "{}", refused.stderr);
    drop(held);
    assert_eq!(bench.run(&config, &[]).code, Some(0));
}

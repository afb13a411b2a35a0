//! `--quantize`: what is printed, what is refused, and that a run never takes one model's results for the other's.

use super::bench::{Bench, CONFIG, Ended};
use serde_json::Value;
use std::process::{Command, Stdio};

const CONTEXT: usize = 8192;

fn longwick(bench: &Bench, args: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longwick"));
    command.args(args).stdin(Stdio::null()).env("LONGWICK_CACHE", bench.path().join("cache"));
    Ended::of(command.output().unwrap())
}

#[test]
fn generate_says_what_was_quantised_and_logits_differ() {
    let bench = Bench::new(CONTEXT, 1);
    let model = bench.path().join("model").display().to_string();
    let tokens = bench.path().join("ids.json");
    std::fs::write(&tokens, "[66, 108, 117, 101]").unwrap();
    let tokens = tokens.display().to_string();
    let generate = ["generate", "-m", &model, "--prompt", "Blue", "--max-tokens", "8", "--json"];
    let logits = ["logits", "-m", &model, "--tokens", &tokens];
    let run = |command: &[&str], more: &[&str]| {
        let ended = longwick(&bench, &[command, &["--kv-memory", "8MiB"], more].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        (serde_json::from_str::<Value>(&ended.stdout).unwrap(), ended.stderr)
    };
    let (floats, said) = run(&logits, &[]);
    assert!(!said.contains("quantised"), "{said}");
    // Six of seven projections in each of two layers; the last has 48 inputs.
    let expected = "12 matrices quantised to q8_0, the vocabulary projection to q8_0; 2 matrices left in f32: width 48 is \
                    no multiple of 32";
    let quantize = ["--quantize", "q8_0"];
    let (blocks, said) = run(&logits, &quantize);
    assert!(said.contains(expected), "{said}");
    assert_ne!(floats, blocks);
    assert_eq!(blocks, run(&logits, &quantize).0);
    let (report, said) = run(&generate, &quantize);
    assert!(said.contains(expected), "{said}");
    assert!(!report["token_ids"].as_array().unwrap().is_empty(), "{report}");
}

#[test]
fn unknown_formats_and_models_without_a_matrix_to_quantise_are_refused() {
    let bench = Bench::new(CONTEXT, 1);
    let model = bench.path().join("model").display().to_string();
    let refused = |format: &str, named: &[&str]| {
        let args = ["generate", "-m", &model, "--prompt", "Blue", "--quantize", format];
        let ended = longwick(&bench, &args);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        for word in named {
            assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
        }
    };
    refused("q3_k", &["--quantize", "q8_0, q6_k, q5_k, q5_0, q4_k, q4_1, q4_0"]);
    refused(
        "q4_k",
        &["nothing to quantise", "width 32 is no multiple of 256", "width 48 is no multiple of 256"],
    );
}

#[test]
fn a_run_with_another_format_reuses_nothing() {
    let bench = Bench::new(CONTEXT, 1);
    let plain = bench.config("a.toml", "out", CONFIG);
    let quantised = CONFIG.replace("model = \"model\"", "model = \"model\"\nquantize = \"q8_0\"");
    let quantised = bench.config("b.toml", "out", &quantised);
    let first = bench.run(&plain, &[]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let before = bench.exports("out");
    let second = bench.run(&quantised, &[]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert_eq!(second.results().2, 0, "{}", second.stderr);
    assert!(second.stderr.contains("model (q8_0): 12 matrices quantised to q8_0"), "{}", second.stderr);
    assert_ne!(before, bench.exports("out"));
    // Each finds its own results again, and the loads of the two are of two models.
    for config in [&plain, &quantised] {
        let (done, total, reused) = bench.run(config, &[]).results();
        assert_eq!((done, reused), (total, total));
    }
    let query = "SELECT COUNT(DISTINCT model) FROM loads";
    let models: u32 = bench.database("out").query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(models, 2);
    let plan = bench.plan("out");
    assert_eq!(plan["models"][0]["quantize"], "q8_0", "{plan}");
}

#[test]
fn one_file_can_be_two_models_of_a_run() {
    let bench = Bench::new(CONTEXT, 1);
    let text = CONFIG
        .replace("[judge]\nmodel = \"tiny\"", "[judge]\nmodel = \"small\"")
        .replace("[engine]", "[models.small]\nmodel = \"model\"\nquantize = \"q4_0\"\n[engine]");
    let config = bench.config("c.toml", "out", &text);
    let planned = bench.run(&config, &["--dry-run"]);
    assert!(planned.stdout.contains("model (q4_0)"), "{}", planned.stdout);
    let ended = bench.run(&config, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("\nmodel: weights"), "{}", ended.stderr);
    assert!(ended.stderr.contains("\nmodel (q4_0): weights"), "{}", ended.stderr);
}

#[test]
fn encoders_are_not_quantised() {
    let bench = Bench::new(CONTEXT, 1);
    let encoder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/encoders/tiny-bert-base-multilingual-cased")
        .display()
        .to_string();
    let ended =
        longwick(&bench, &["embed", "-m", &encoder, "--pooling", "mean", "--quantize", "q8_0", "blue"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("only decoders can be quantised to q8_0"), "{}", ended.stderr);
}

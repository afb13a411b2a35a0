//! The compactor `llmlingua2` in whole runs and alone, with an encoder of its own.

use super::bench::{Bench, CONFIG, Ended};
use std::path::{Path, PathBuf};
use std::process::Command;

fn encoder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoders").join(name)
}

/// The tests' config with the compactor and its encoder in place of the others.
fn config(encoder: &Path) -> String {
    let named = format!("[models.lingua]\nmodel = {:?}\n[engine]", encoder.display().to_string());
    CONFIG.replace("[engine]", &named).replace(
        "compactors = [\"recent-2\", \"llm:continuity\", \"llm:continuity+extractor\"]",
        "encoder = \"lingua\"\ncompactors = [\"recent-2\", \"llmlingua2:60\", \"llmlingua2:60+extractor\"]",
    )
}

fn contents(bench: &Bench, output: &str) -> Vec<String> {
    let rows = bench.lines(output, "400-top/llmlingua2_60/results.jsonl");
    rows.iter().map(|row| row["compacted"][0]["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_run_compacts_with_its_encoder_and_another_encoder_is_another_result() {
    let bench = Bench::new(8192, 1);
    let mbert = config(&encoder("tiny-bert-base-multilingual-cased"));
    let first = bench.run(&bench.config("a.toml", "out", &mbert), &[]);
    assert_eq!(first.code, Some(0), "{}\n{}", first.stdout, first.stderr);
    let texts = contents(&bench, "out");
    assert_eq!(texts.len(), 2);
    assert!(texts.iter().all(|text| !text.trim().is_empty() && text.len() < 400), "{texts:?}");
    let last = &bench.lines("out", "400-top/llmlingua2_60+extractor/results.jsonl")[0]["compacted"];
    assert_eq!(last[0]["content"], texts[0].as_str());

    let again = bench.run(&bench.config("a.toml", "out", &mbert), &[]);
    let (done, total, reused) = again.results();
    assert_eq!((done, reused), (total, total), "{}", again.stderr);

    // The same config, and an encoder of another digest behind the same name: its compactions are made anew, and what
    // does not depend on them is not.
    let xlmr = config(&encoder("tiny-xlm-roberta-large"));
    let other = bench.run(&bench.config("a.toml", "out", &xlmr), &[]);
    let (done, total, reused) = other.results();
    assert!(done == total && reused > 0 && reused < total, "{}", other.stderr);
    assert_ne!(contents(&bench, "out"), texts);
    let estimate = bench.run(&bench.config("a.toml", "out", &xlmr), &["--dry-run"]);
    assert!(estimate.stdout.contains("compact (encoder)"), "{}", estimate.stdout);
}

#[test]
fn a_model_that_is_no_encoder_is_refused_before_anything_runs() {
    let bench = Bench::new(8192, 1);
    let text = config(&bench.path().join("model"));
    let ended = bench.run(&bench.config("a.toml", "out", &text), &[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("encoders: bert"), "{}", ended.stderr);
}

#[test]
fn compact_takes_an_encoder() {
    let bench = Bench::new(8192, 1);
    let history = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories/openai.json");
    let compact = |extra: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longwick"));
        command.arg("compact").arg(&history).args(["--compactor", "llmlingua2:20", "--model"]);
        command.arg(bench.path().join("model")).args(extra);
        Ended::of(command.env("HOME", bench.path()).output().unwrap())
    };
    let path = encoder("tiny-xlm-roberta-large").display().to_string();
    let ended = compact(&["--encoder", &path]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    assert!(
        ended.stdout.contains("\"assistant\"") && ended.stderr.contains("llmlingua2:20"),
        "{}",
        ended.stderr
    );
    let ended = compact(&[]);
    assert!(ended.code == Some(2) && ended.stderr.contains("--encoder"), "{}", ended.stderr);
}

#[test]
fn embed_prints_a_line_a_text() {
    let embed = |model: &Path, extra: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longwick"));
        command.args(["embed", "--model"]).arg(model).args(extra);
        Ended::of(command.output().unwrap())
    };
    let model = encoder("tiny-bert-base-multilingual-cased");
    let ended = embed(&model, &["--pooling", "mean", "one", "two"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let vectors: Vec<Vec<f32>> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((vectors.len(), vectors[0].len()), (2, 32));

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("texts");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let input = file.display().to_string();
    let ended = embed(&model, &["--pooling", "mean", "--json", "--input", &input]);
    let row: serde_json::Value = serde_json::from_str(ended.stdout.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (row["index"].as_u64(), row["text"].as_str(), row["is_cut"].as_bool()),
        (Some(1), Some("two"), Some(false))
    );
    assert_eq!(serde_json::from_value::<Vec<f32>>(row["embedding"].clone()).unwrap(), vectors[1]);

    // A decoder embeds through the engine; the same text gives the same vector beside others.
    let bench = Bench::new(8192, 1);
    let decoder = bench.path().join("model");
    let both = embed(&decoder, &["a boat", "another boat"]);
    let alone = embed(&decoder, &["another boat"]);
    assert_eq!(both.code, Some(0), "{}", both.stderr);
    assert_eq!(both.stdout.lines().nth(1), alone.stdout.lines().next());
    let ended = embed(&decoder, &[""]);
    assert!(ended.code == Some(2) && ended.stderr.contains("text 0 has no token"), "{}", ended.stderr);
    let ended = embed(&model, &["one"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("--pooling"), "{}", ended.stderr);
}

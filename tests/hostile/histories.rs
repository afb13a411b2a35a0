//! Histories: JSON, JSONL and Parquet, in every format that the fixtures have.

use std::path::{Path, PathBuf};

use longwick::history::import_path;

use crate::damage::Attack;

fn fixtures(endings: &[&str]) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known)))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn attack(path: &Path, rounds: usize, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let file = path.file_name().unwrap().to_str().unwrap();
    let valid = std::fs::read(path).unwrap();
    Attack { file, valid: &valid, rounds, seed }.run(folder.path(), |path| {
        import_path(path, None).inspect_err(|error| {
            assert!(error.to_string().contains(file), "the error does not name the file: {error}");
        })
    });
}

#[test]
fn json_and_jsonl() {
    for (seed, path) in fixtures(&["json", "jsonl"]).iter().enumerate() {
        attack(path, 200, seed as u64);
    }
}

#[test]
fn parquet() {
    for (seed, path) in fixtures(&["parquet"]).iter().enumerate() {
        attack(path, 200, 100 + seed as u64);
    }
}

#[test]
fn bombs() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("deep.json", "[".repeat(500_000)),
        ("deep.jsonl", "{\"messages\":[".repeat(100_000)),
        ("empty.json", String::new()),
        ("blank.jsonl", "\n \n".to_owned()),
        ("scalar.json", "17".to_owned()),
        ("zero.jsonl", "\0".repeat(100_000)),
        ("magic.parquet", "PAR1PAR1".to_owned()),
        ("length.parquet", format!("PAR1{}\u{7f}\u{7f}\u{7f}\u{7f}PAR1", "\0".repeat(64))),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let error = import_path(&path, None).expect_err(name);
        assert!(error.to_string().contains(name), "{error}");
    }
    crate::damage::check_memory();
}

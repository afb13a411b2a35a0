//! TOML: model manifests and protocols.

use std::path::{Path, PathBuf};

use longwick::compint::Protocol;
use longwick::weights::manifest::ModelManifest;

use crate::damage::Attack;

fn toml_files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// Text as a reader of a file gets it; bytes that are no text are the file system's business.
fn lossy(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

#[test]
fn manifests() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, path) in toml_files("models").iter().enumerate() {
        let valid = std::fs::read(path).unwrap();
        Attack { file: "manifest.toml", valid: &valid, rounds: 150, seed: 200 + seed as u64 }
            .run(folder.path(), |path| ModelManifest::parse(&lossy(path), path));
    }
}

#[test]
fn protocols() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, path) in toml_files("configs/prompts").iter().enumerate() {
        let valid = std::fs::read(path).unwrap();
        Attack { file: "protocol.toml", valid: &valid, rounds: 200, seed: 300 + seed as u64 }
            .run(folder.path(), |path| Protocol::from_toml(&lossy(path), "protocol.toml"));
    }
    let bomb = format!("a = {}", "[".repeat(100_000));
    assert!(Protocol::from_toml(&bomb, "bomb.toml").is_err());
    assert!(ModelManifest::parse(&bomb, Path::new("bomb.toml")).is_err());
}

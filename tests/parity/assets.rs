//! Where test data lies, and an engine over it.

use std::path::{Path, PathBuf};

use longwick::engine::{Engine, EngineOptions};

/// The shared test data, or `None` with the reason printed.
pub fn shared_data(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("LONGWICK_SHARED_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    present(root.join(name))
}

/// The repository; `LONGWICK_REPOSITORY` names its place for a test program that was carried to another machine.
pub fn repository() -> PathBuf {
    std::env::var_os("LONGWICK_REPOSITORY")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// A folder of fixtures in the repository.
pub fn fixtures(folder: &str) -> PathBuf {
    repository().join("tests/fixtures").join(folder)
}

/// A checkpoint in the repository.
pub fn own_fixture(name: &str) -> PathBuf {
    fixtures("tiny").join(name)
}

/// A real model among the test assets, or `None` with the reason printed.
pub fn real_model(name: &str) -> Option<PathBuf> {
    let from_env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = from_env("LONGWICK_CACHE").or_else(|| Some(from_env("HOME")?.join(".cache/longwick")));
    let root = from_env("LONGWICK_TEST_ASSETS").or_else(|| Some(cache?.join("assets")))?;
    present(root.join(name))
}

fn present(path: PathBuf) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is absent", path.display());
    None
}

/// The model at `path`.
pub fn load(path: &Path, options: EngineOptions) -> Engine {
    Engine::load(path, options, &mut |_, _| {}).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

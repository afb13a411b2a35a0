//! What the targets share: a file for readers that take paths.
use std::path::Path;

/// Writes `data` to a fresh file with this name and hands its path to `read`.
pub fn with_file<T>(name: &str, data: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join(name);
    std::fs::write(&path, data).expect("the file is written");
    read(&path)
}

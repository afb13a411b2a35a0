//! The files of a [`super::KvDirectory`]: names, ages, and which go first.

use std::collections::HashSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::KvFileError;

/// A part that nobody has written to for so long is what a killed process left behind.
const STALE: Duration = Duration::from_secs(3600);

/// Names of the files in a folder.
///
/// # Errors
/// [`KvFileError::Io`].
pub(super) fn names(folder: &Path) -> Result<HashSet<String>, KvFileError> {
    let files = entries(folder)?.into_iter();
    Ok(files
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| is_ours(name))
        .collect())
}

/// Whether a name is one that [`super::KvDirectory`] gives. Whatever else lies there is not ours to remove.
fn is_ours(name: &str) -> bool {
    name.ends_with(".segment") || name.ends_with(".boundary")
}

/// Marks a file as used just now. One that is gone, or not ours to mark, only loses its place in the order.
pub(super) fn touch(file: &Path) {
    let times = std::fs::FileTimes::new().set_modified(SystemTime::now());
    if let Ok(opened) = std::fs::OpenOptions::new().append(true).open(file) {
        let _ = opened.set_times(times);
    }
}

/// Removes what killed processes left half written.
pub(super) fn remove_stale_parts(folder: &Path) {
    for entry in entries(folder).unwrap_or_default() {
        let is_part = entry.file_name().to_string_lossy().ends_with(".part");
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|modified| modified.elapsed().ok());
        if is_part && age.is_some_and(|age| age > STALE) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes the least recently used files of all folders in `root` until `max_bytes` are kept. Returns those removed.
///
/// # Errors
/// [`KvFileError::Io`].
pub(super) fn shrink(root: &Path, max_bytes: u64) -> Result<Vec<PathBuf>, KvFileError> {
    let mut files = Vec::new();
    for folder in entries(root)?.into_iter().filter(|entry| entry.path().is_dir()) {
        for entry in entries(&folder.path())? {
            // Another process may have removed it meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            if is_ours(&entry.file_name().to_string_lossy()) {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((modified, metadata.len(), entry.path()));
            }
        }
    }
    files.sort();
    let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    let mut removed = Vec::new();
    for (_, size, file) in files {
        if bytes <= max_bytes {
            break;
        }
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(KvFileError::io(&file, "remove")(error));
            }
            _ => bytes -= size,
        }
        removed.push(file);
    }
    Ok(removed)
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>, KvFileError> {
    let read = std::fs::read_dir(folder).map_err(KvFileError::io(folder, "list"))?;
    read.collect::<Result<_, _>>().map_err(KvFileError::io(folder, "list"))
}

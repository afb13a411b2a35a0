//! The files of a [`super::KvDirectory`]: names, ages, and which go first.

use std::collections::HashSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::KvFileError;

/// A part that nobody has written to for so long is what a killed process left behind, on whichever machine.
const STALE: Duration = Duration::from_secs(3600);

/// Hexadecimal digits of a folder's name, and of a file's.
pub(super) const FOLDER_DIGITS: usize = 16;
pub(super) const FILE_DIGITS: usize = 40;

/// Makes a folder that the user alone may read: it will hold prompts.
///
/// # Errors
/// [`KvFileError::Io`].
pub(super) fn create_private(folder: &Path) -> Result<(), KvFileError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(KvFileError::io(folder, "create"))
}

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

/// Whether a name is one that [`super::KvDirectory`] gives a file. Whatever else lies there is not ours to remove.
fn is_ours(name: &str) -> bool {
    let digits = name.strip_suffix(".segment").or_else(|| name.strip_suffix(".boundary"));
    digits.is_some_and(|digits| is_digest(digits, FILE_DIGITS))
}

fn is_digest(name: &str, digits: usize) -> bool {
    name.len() == digits && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The process that writes a part of ours.
fn writer(name: &str) -> Option<u32> {
    let (file, process) = name.strip_suffix(".part")?.rsplit_once('.')?;
    process.parse().ok().filter(|_| is_ours(file))
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
        let Some(process) = writer(&entry.file_name().to_string_lossy()) else { continue };
        let has_ended = cfg!(target_os = "linux") && !Path::new("/proc").join(process.to_string()).exists();
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|modified| modified.elapsed().ok());
        if has_ended || age.is_some_and(|age| age > STALE) {
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
    let is_our_folder = |entry: &DirEntry| is_digest(&entry.file_name().to_string_lossy(), FOLDER_DIGITS);
    for folder in entries(root)?.into_iter().filter(|entry| is_our_folder(entry) && entry.path().is_dir()) {
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

//! One memory-mapped file.
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;

use super::WeightsError;

/// A file and its bytes. The handle is kept so that a digest reads the file that is mapped, even after another was
/// renamed into its place.
pub(super) struct MappedFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) bytes: Arc<Mmap>,
}

impl MappedFile {
    pub(super) fn open(path: &Path) -> Result<Self, WeightsError> {
        let file = open_regular(path)?;
        // SAFETY: the map is private to this value and read-only. Rust's aliasing rules ask that nobody changes the
        // file meanwhile; as with every mapped model, that is the user's side of the bargain. Nothing parsed from the
        // map is trusted for a later unchecked access, so a changed file gives wrong numbers or an error, and a
        // shortened one a SIGBUS, but no out-of-bounds access of ours.
        let bytes = unsafe { Mmap::map(&file) }.map_err(|source| WeightsError::Io {
            file: path.into(),
            action: "map",
            source,
        })?;
        Ok(Self { path: path.into(), file, bytes: Arc::new(bytes) })
    }
}

/// Opens a regular file for reading. Opening a pipe would wait for its other end, so the kind is looked at first.
pub(super) fn open_regular(path: &Path) -> Result<File, WeightsError> {
    let io = |source| WeightsError::Io { file: path.into(), action: "open", source };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(WeightsError::NotAFile { file: path.into() });
    }
    File::open(path).map_err(io)
}

//! Writing a history, whole or not at all.
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use super::{History, ImportError, records::io_error};

/// Writes a history in longwick's own format: JSONL, one message a line.
///
/// # Errors
/// [`ImportError::Io`]; the file is then as it was before.
pub fn write_history(path: &Path, history: &History) -> Result<(), ImportError> {
    write_atomically(path, |out| history.write_jsonl(out))
}

/// Writes to a sibling file, syncs it, and renames it over `path`, so that a reader sees the old
/// file or the new one, never a part. A symbolic link stays, and what it leads to is replaced.
///
/// What is there and is no regular file, a device or a pipe, is written to directly: a rename would put a
/// regular file in its place.
///
/// # Errors
/// [`ImportError::Io`]; the sibling is removed and a regular file at `path` left alone.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), ImportError> {
    let failed = |source| io_error(path, source);
    match fs::metadata(path) {
        Ok(found) if found.is_file() => replace(&fs::canonicalize(path).map_err(failed)?, write),
        Ok(_) => write_through(path, write).map_err(failed),
        // What is not there, or cannot be looked at, is for the write to find out.
        Err(_) => replace(path, write),
    }
}

fn write_through(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(File::options().write(true).open(path)?);
    write(&mut out)?;
    out.flush()
}

fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), ImportError> {
    let sibling = sibling(path)?;
    let written = write_synced(&sibling, write).and_then(|()| fs::rename(&sibling, path));
    written.map_err(|source| {
        // The first error is the one to report; a sibling that cannot be removed does no harm.
        let _ = fs::remove_file(&sibling);
        io_error(path, source)
    })
}

fn write_synced(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(File::create_new(path)?);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// A name in the same folder that no other process uses.
fn sibling(path: &Path) -> Result<PathBuf, ImportError> {
    let Some(name) = path.file_name() else {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not a file name");
        return Err(io_error(path, source));
    };
    let mut sibling = name.to_owned();
    sibling.push(format!(".{}.part", std::process::id()));
    Ok(path.with_file_name(sibling))
}

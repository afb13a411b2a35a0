//! sha256 of files, streamed: a digest leaves neither the file nor its map in memory.
use std::{fs::File, os::unix::fs::FileExt, path::Path};

use sha2::{Digest, Sha256};

use super::{WeightsError, mapped::open_regular};

const CHUNK_BYTES: usize = 1 << 20;

/// sha256 of a file's content, in lower-case hex.
pub fn file_digest(path: &Path) -> Result<String, WeightsError> {
    file_digest_with_progress(path, &mut |_, _| {})
}

/// As [`file_digest`]; `progress` is told after each chunk how many bytes are done, and how many there are.
pub fn file_digest_with_progress(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<String, WeightsError> {
    let file = open_regular(path)?;
    let total = length(&file, path)?;
    let mut done = 0;
    digest_open_file(&file, path, &mut |bytes| {
        done += bytes;
        progress(done, total);
    })
}

pub(super) fn length(file: &File, path: &Path) -> Result<u64, WeightsError> {
    match file.metadata() {
        Ok(metadata) => Ok(metadata.len()),
        Err(source) => Err(WeightsError::Io { file: path.into(), action: "read", source }),
    }
}

/// Reads by position, so that two digests of one handle do not disturb each other. `progress` gets each chunk's bytes.
pub(super) fn digest_open_file(
    file: &File,
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<String, WeightsError> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut position = 0;
    loop {
        let read = match file.read_at(&mut chunk, position) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(source) => {
                return Err(WeightsError::Io { file: path.into(), action: "read", source });
            }
        };
        hasher.update(&chunk[..read]);
        position += read as u64;
        progress(read as u64);
    }
    Ok(hex(&hasher.finalize()))
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

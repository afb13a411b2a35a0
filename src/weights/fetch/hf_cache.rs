//! The Hugging Face cache, read only.
//!
//! # Source
//! The layout that `huggingface_hub` documents: `models--owner--name/refs/<revision>` holds a commit,
//! `snapshots/<commit>/<path>` links to `blobs/<etag>`, and the etag of a large file is its sha256.
use std::path::{Path, PathBuf};

use super::FetchError;
use super::part_file::{Checksum, Expected};
use super::selection::{is_whole, select};
use crate::weights::manifest::HubSource;

/// A commit's id or a branch's name; longer is damage.
const MAX_REF_BYTES: u64 = 4096;
/// A snapshot with more files than this is no model.
const MAX_FILES: usize = 10_000;

/// A whole model in the cache.
pub(super) struct Snapshot {
    pub(super) folder: PathBuf,
    pub(super) commit: String,
    pub(super) files: Vec<String>,
}

/// Looks for a whole snapshot of the source's revision. What is unreadable or incomplete counts as absent: the cache is
/// another program's, and our own copy can stand in.
pub(super) fn find(cache: &Path, source: &HubSource) -> Option<Snapshot> {
    let repo = cache.join(format!("models--{}", source.repo.replace('/', "--")));
    let commit = if is_commit(&source.revision) {
        source.revision.clone()
    } else {
        let text =
            crate::weights::lock::read_small_text(&repo.join("refs").join(&source.revision), MAX_REF_BYTES);
        text.ok().map(|text| text.trim().to_string()).filter(|commit| is_commit(commit))?
    };
    let folder = repo.join("snapshots").join(&commit);
    let mut paths = Vec::new();
    list(&folder, "", &mut paths).ok()?;
    paths.sort();
    let files = select(source, &commit, &paths).ok()?;
    is_whole(&folder, &files).then_some(Snapshot { folder, commit, files })
}

/// What the cache itself says of a file: the blob's name is the sha256 of a large file, the git id of a small one.
pub(super) fn expected(path: &Path) -> Result<Expected, FetchError> {
    let reading = |error| FetchError::io("reading", path, error);
    let blob = std::fs::canonicalize(path).map_err(reading)?;
    let bytes = std::fs::metadata(&blob).map_err(reading)?.len();
    let name = blob.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_string();
    let is_hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let checksum = match name.len() {
        64 if is_hex => Some(Checksum::HubSha256(name)),
        40 if is_hex => Some(Checksum::HubGitId(name)),
        _ => None,
    };
    Ok(Expected { bytes: Some(bytes), checksum })
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn list(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_string) else {
            continue;
        };
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        if paths.len() >= MAX_FILES {
            return Err(std::io::Error::other("too many files"));
        }
        // Only files are links in this layout, so that a linked folder, which could lead in a circle, is not followed.
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &path, paths)?;
        } else if entry.path().is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

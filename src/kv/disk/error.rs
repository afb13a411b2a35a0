//! [`KvFileError`].

use std::path::{Path, PathBuf};

use crate::kv::KvError;

/// What is wrong with a file of cached keys and values.
#[derive(Debug, thiserror::Error)]
pub enum KvFileError {
    /// The system refuses to read or write.
    #[error("{}: cannot {action}: {source}", file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{}: {field}: {expected} expected, found {found}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// Which part of it.
        field: &'static str,
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The file was made by another model, another setting or another arithmetic.
    #[error("{}: saved with another {field}: {found}; this engine has {expected}", file.display())]
    Identity {
        /// The file.
        file: PathBuf,
        /// What differs.
        field: &'static str,
        /// This engine's.
        expected: String,
        /// The file's.
        found: String,
    },
    /// The file's content is damaged.
    #[error("{}: damaged: its sha256 is {found}, and it says {expected}", file.display())]
    Checksum {
        /// The file.
        file: PathBuf,
        /// The sum that the file ends with.
        expected: String,
        /// The sum of what stands before.
        found: String,
    },
    /// There is no room for what the file holds.
    #[error("{}: {source}", file.display())]
    Cache {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: KvError,
    },
}

impl KvFileError {
    pub(super) fn io(file: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io { file, action, source }
    }

    pub(super) fn cache<E: Into<KvError>>(file: &Path) -> impl FnOnce(E) -> Self {
        let file = file.to_owned();
        move |source| Self::Cache { file, source: source.into() }
    }

    pub(super) fn format(
        file: &Path,
        field: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        Self::Format {
            file: file.to_owned(),
            field,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Whether the file itself is of no use, here or anywhere with the same settings.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Format { .. } | Self::Checksum { .. } | Self::Identity { .. })
    }
}

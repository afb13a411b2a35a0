//! [`ConfigError`].

use std::path::PathBuf;

/// A config that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is longer than any config.
    #[error("{path}: {bytes} bytes are more than a config's {limit}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// It is no TOML, lacks a key, or has an unknown one; the problem shows line and key.
    #[error("{path}: {problem}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A value cannot be used.
    #[error("{path}: {field}: {problem}")]
    Field {
        /// The file.
        path: PathBuf,
        /// The key.
        field: String,
        /// What is wrong.
        problem: String,
    },
}

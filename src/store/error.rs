//! [`StoreError`].

use std::path::PathBuf;

/// A run's database or exports that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A folder of the run cannot be made or cleared.
    #[error("cannot make or clear the folder {path}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The database cannot be opened, read or written.
    #[error("{path}")]
    Database {
        /// The database.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
    /// Another process works on the run.
    #[error("{path} is in use by another process; wait for it, or give this run another name")]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// The database is of another longwick.
    #[error("{path} has format {found}; this build reads {expected}. Give the run another name")]
    Format {
        /// The database.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What this build reads.
        expected: &'static str,
    },
    /// A value in the database is not what it should be.
    #[error("{path}: {what} is damaged: {problem}")]
    Damaged {
        /// The database.
        path: PathBuf,
        /// Which value.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Export(#[from] crate::history::ImportError),
    /// A table cannot be written as CSV.
    #[error("cannot write {file}")]
    Csv {
        /// The file.
        file: &'static str,
        /// The cause.
        source: csv::Error,
    },
}

//! [`ProtocolError`]: why a protocol cannot be had or used.

use super::BUILT_IN;
use super::load::MAX_FILE_BYTES;
use std::path::PathBuf;

/// A protocol that cannot be had, or cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Only the built-in one is always there.
    #[error(
        "protocol {name:?} is not in the cache ({path}). Built in is {BUILT_IN:?}; run scripts/fetch_protocol.sh to \
         fetch conpact-0.1.0"
    )]
    NotFound {
        /// What was asked for.
        name: String,
        /// The file that was looked for.
        path: PathBuf,
    },
    /// The name is not one path component.
    #[error("{name:?} cannot name a protocol: letters, digits, '.', '-' and '_' only, not starting with '.'")]
    Name {
        /// What was asked for.
        name: String,
    },
    /// Neither `LONGWICK_CACHE` nor `HOME` is set.
    #[error("no cache folder: set LONGWICK_CACHE, or HOME")]
    NoCache,
    /// The file is there but cannot be read.
    #[error("cannot read protocol {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is too large to be a protocol.
    #[error("{path} is {bytes} bytes; a protocol has at most {MAX_FILE_BYTES}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file is not of this shape.
    #[error("{file} is not a protocol: {problem}")]
    Parse {
        /// The file, or the built-in name.
        file: String,
        /// What the parser said, with line and column.
        problem: String,
    },
    /// The file reads, but says something that cannot be.
    #[error("{file}: {field} {problem}")]
    Invalid {
        /// The file, or the built-in name.
        file: String,
        /// Which field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The protocol has no prompt of that name.
    #[error("protocol {protocol:?} has no {kind} prompt {name:?}; it has: {available}{hint}")]
    NoPrompt {
        /// The protocol.
        protocol: String,
        /// `compaction` or `extraction`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What there is, joined by commas.
        available: String,
        /// What to do about it; empty where there is nothing to say.
        hint: &'static str,
    },
}

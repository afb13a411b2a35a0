//! [`ImportError`]: what can be wrong with a history file, with the place and the values.
use std::{fmt, path::PathBuf};

use super::Format;

/// Where in a file a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// The file is one JSON document.
    Document,
    /// A line of a JSONL file, from 1.
    Line(usize),
    /// An element of the top-level JSON array, from 0.
    Element(usize),
    /// A row of a Parquet file, from 0.
    Row(usize),
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Document => formatter.write_str("document"),
            Location::Line(line) => write!(formatter, "line {line}"),
            Location::Element(index) => write!(formatter, "element {index}"),
            Location::Row(index) => write!(formatter, "row {index}"),
        }
    }
}

/// Why a file could not be imported or written.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Nothing but white space.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// JSON or Parquet without a single record, as `[]`.
    #[error("{}: the file holds no {wanted}", path.display())]
    NoRecords {
        /// The file.
        path: PathBuf,
        /// What it should hold: `message` or `haystack`.
        wanted: &'static str,
    },
    /// The file was read, but holds no message.
    #[error("{}: {format} file without a single message", path.display())]
    NoMessages {
        /// The file.
        path: PathBuf,
        /// The format it was read as.
        format: Format,
    },
    /// A size passes the limit below which it is safe to hold in memory.
    #[error("{}: {what} is {size}, the limit is {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is too large, with its place.
        what: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Not JSON: damaged, cut off, a lone surrogate, a number out of range.
    #[error("{}: line {line}, column {column}: {message}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// An object names a key twice, so that its value is ambiguous.
    #[error("{}: line {line}: key {key:?} stands twice in one object", path.display())]
    DuplicateKey {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// Arrays and objects nest deeper than any supported format does.
    #[error("{}: line {line}: values nest deeper than {limit} levels", path.display())]
    TooDeep {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The limit.
        limit: usize,
    },
    /// A field is missing or has the wrong type.
    #[error("{}: {location}: field `{field}`: expected {expected}, found {found}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The record.
        location: Location,
        /// The field's path within the record, e.g. `messages[3].content`.
        field: String,
        /// What the format wants.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A known tool's format that is not read.
    #[error(
        "{}: this is {found}, which is not read; supported formats: {}",
        path.display(),
        Format::list()
    )]
    ForeignFormat {
        /// The file.
        path: PathBuf,
        /// The format recognised.
        found: &'static str,
    },
    /// Nothing known.
    #[error(
        "{}: {location}: no supported format has {found}; supported formats: {} (choose one with --format)",
        path.display(),
        Format::list()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The record looked at.
        location: Location,
        /// What was found.
        found: String,
    },
    /// The file holds several histories, and one was wanted.
    #[error("{}: holds {count} histories; choose one with --index 0 to {}", path.display(), count - 1)]
    SeveralHistories {
        /// The file.
        path: PathBuf,
        /// How many, at least 2.
        count: usize,
    },
    /// There is no history of that index.
    #[error("{}: no history {index}: the file holds {count}, counted from 0", path.display())]
    IndexOutOfRange {
        /// The file.
        path: PathBuf,
        /// The index asked for.
        index: usize,
        /// How many histories there are.
        count: usize,
    },
    /// The Parquet file is damaged or uses what is not supported.
    #[error("{}: Parquet: {message}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

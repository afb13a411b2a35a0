//! Messages and histories: what an import yields and what a compactor maps.
//!
//! [`import_path`] reads any supported file; [`Format`] lists what is supported and how a file is
//! recognised. Calls and results keep their types ([`ContentPart`]); only [`FlatMessage`], the
//! `{role, content}` pair of conpact's files, turns them into text.
mod collect;
mod detect;
mod error;
mod flat;
mod format;
mod haystack;
mod import;
mod json;
mod message;
mod notes;
mod openai;
mod output;
mod parquet_check;
mod parquet_rows;
mod parts;
mod records;
mod sharegpt;
mod thrift;

pub use error::{ImportError, Location};
pub use flat::FlatMessage;
pub use format::{Format, UnknownFormatName};
pub use haystack::{Haystack, load_haystacks};
pub use import::{History, Imported, import_history, import_path};
pub use message::{ContentPart, Message, Origin, Role, ToolCall, ToolResult};
pub use notes::{ImportNotes, Tally};
pub use output::{write_atomically, write_history};

#[cfg(test)]
mod tests;

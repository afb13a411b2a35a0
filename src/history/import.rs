//! [`import_path`]: any supported file to histories.
use std::{
    io::{self, Write},
    path::Path,
};

use super::{ContentPart, Format, ImportError, ImportNotes, Message, collect::Collector, records};

/// One conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The id, where the source has one.
    pub id: Option<String>,
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// What the import dropped or changed.
    pub notes: ImportNotes,
}

impl History {
    /// Writes longwick's own format: one message a line, as JSON.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_jsonl(&self, out: &mut dyn Write) -> io::Result<()> {
        for message in &self.messages {
            serde_json::to_writer(&mut *out, message)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// How many parts are reasoning, which [`super::FlatMessage`] leaves out.
    pub fn num_reasoning_parts(&self) -> usize {
        let is_reasoning = |part: &&ContentPart| matches!(part, ContentPart::Reasoning { .. });
        let parts = self.messages.iter().flat_map(|message| &message.content);
        parts.filter(is_reasoning).count()
    }
}

/// What a file held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The format it was read as.
    pub format: Format,
    /// The histories, in file order; at least one, and at least one message in all.
    pub histories: Vec<History>,
}

/// Reads a history file. The format is recognised from the first record unless `format` names it.
///
/// JSONL is read line by line and a top-level array element by element; a byte-order mark, CRLF
/// and blank lines are accepted.
///
/// # Errors
/// Every [`ImportError`] but those of the index; damage names the file, the place and the field.
pub fn import_path(path: &Path, format: Option<Format>) -> Result<Imported, ImportError> {
    let mut collector = Collector::new(path, format);
    records::read(path, &mut |location, record| collector.push(location, record))?;
    collector.finish()
}

/// Reads one history: the one at `index`, or the only one of the file.
///
/// # Errors
/// Those of [`import_path`]; [`ImportError::SeveralHistories`] without an index where there are
/// several, [`ImportError::IndexOutOfRange`] where there are fewer.
pub fn import_history(
    path: &Path,
    format: Option<Format>,
    index: Option<usize>,
) -> Result<History, ImportError> {
    let mut histories = import_path(path, format)?.histories;
    let count = histories.len();
    let index = match index {
        None if count > 1 => {
            return Err(ImportError::SeveralHistories { path: path.to_owned(), count });
        }
        None => 0,
        Some(index) => index,
    };
    if index >= count {
        return Err(ImportError::IndexOutOfRange { path: path.to_owned(), index, count });
    }
    Ok(histories.swap_remove(index))
}

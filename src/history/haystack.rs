//! [`Haystack`]: a row of conpact's `haystacks` table.
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FlatMessage, History, ImportError, Location, detect::describe, records};

/// A long history that instances are cut from, as conpact 0.1.0 stores it. Fields serialise in
/// this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Haystack {
    /// The row's id; instance ids begin with it.
    pub haystack_id: String,
    /// The source the history comes from.
    pub source: String,
    /// The probe model's system message; no part of the history.
    pub system_prompt: String,
    /// The history.
    pub messages: Vec<FlatMessage>,
    /// Tokens of each message's content alone, without role or template overhead and without
    /// special tokens. In conpact's own files the tokenizer is gpt-oss's.
    pub message_tokens: Vec<usize>,
    /// Tokens of the whole history: the sum of `message_tokens` where longwick wrote the row.
    pub token_length: usize,
    /// How many conversations were joined.
    pub source_conversation_count: usize,
}

impl Haystack {
    /// The system message of conpact's own haystacks.
    pub const DEFAULT_SYSTEM_PROMPT: &str = "You are a helpful assistant.";

    /// A haystack of one conversation, flattened, with [`Self::DEFAULT_SYSTEM_PROMPT`].
    ///
    /// `count` gives the tokens of a text, without special tokens. Only contents are counted: with
    /// gpt-oss's tokenizer that gives conpact's `message_tokens` exactly.
    ///
    /// # Errors
    /// Those of `count`.
    pub fn from_history<E>(
        history: &History,
        id: &str,
        source: &str,
        mut count: impl FnMut(&str) -> Result<usize, E>,
    ) -> Result<Self, E> {
        let messages: Vec<FlatMessage> = history.messages.iter().map(FlatMessage::from).collect();
        let counts = messages.iter().map(|message| count(&message.content));
        let message_tokens: Vec<usize> = counts.collect::<Result<_, _>>()?;
        Ok(Self {
            haystack_id: id.to_owned(),
            source: source.to_owned(),
            system_prompt: Self::DEFAULT_SYSTEM_PROMPT.to_owned(),
            messages,
            token_length: message_tokens.iter().sum(),
            message_tokens,
            source_conversation_count: 1,
        })
    }

    /// Writes the row as one line of JSON.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_jsonl(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

/// Reads all rows of a haystacks file, JSONL (or a JSON array) or Parquet, in file order.
///
/// Columns beyond the schema are ignored.
///
/// # Errors
/// [`ImportError`]; a row whose `message_tokens` are not one a message is refused with both numbers.
pub fn load_haystacks(path: &Path) -> Result<Vec<Haystack>, ImportError> {
    let mut haystacks = Vec::new();
    records::read(path, &mut |location, record| {
        haystacks.push(Row { path, location }.haystack(&record)?);
        Ok(())
    })?;
    if haystacks.is_empty() {
        return Err(ImportError::NoRecords { path: path.to_owned(), wanted: "haystack" });
    }
    Ok(haystacks)
}

/// The place of one row, for errors.
struct Row<'p> {
    path: &'p Path,
    location: Location,
}

impl Row<'_> {
    fn haystack(&self, record: &Value) -> Result<Haystack, ImportError> {
        let Value::Object(fields) = record else {
            return Err(self.error("haystack_id".to_owned(), "a haystack row", Some(record)));
        };
        let haystack = Haystack {
            haystack_id: self.string(fields, "haystack_id")?,
            source: self.string(fields, "source")?,
            system_prompt: self.string(fields, "system_prompt")?,
            messages: self.messages(fields)?,
            message_tokens: self.message_tokens(fields)?,
            token_length: self.count("token_length", fields.get("token_length"))?,
            source_conversation_count: self
                .count("source_conversation_count", fields.get("source_conversation_count"))?,
        };
        if haystack.messages.len() != haystack.message_tokens.len() {
            return Err(ImportError::Field {
                path: PathBuf::from(self.path),
                location: self.location,
                field: "message_tokens".to_owned(),
                expected: "one count a message",
                found: format!(
                    "{} counts for {} messages",
                    haystack.message_tokens.len(),
                    haystack.messages.len()
                ),
            });
        }
        Ok(haystack)
    }

    fn messages(&self, fields: &Map<String, Value>) -> Result<Vec<FlatMessage>, ImportError> {
        let messages = self.list(fields, "messages")?;
        let read = |(index, message): (usize, &Value)| {
            let text = |name: &str| match message.get(name) {
                Some(Value::String(text)) => Ok(text.clone()),
                other => Err(self.error(format!("messages[{index}].{name}"), "a string", other)),
            };
            Ok(FlatMessage { role: text("role")?, content: text("content")? })
        };
        messages.iter().enumerate().map(read).collect()
    }

    fn message_tokens(&self, fields: &Map<String, Value>) -> Result<Vec<usize>, ImportError> {
        let counts = self.list(fields, "message_tokens")?.iter().enumerate();
        let name = |index| format!("message_tokens[{index}]");
        counts.map(|(index, count)| self.count_at(|| name(index), Some(count))).collect()
    }

    fn list<'r>(&self, fields: &'r Map<String, Value>, name: &str) -> Result<&'r [Value], ImportError> {
        match fields.get(name) {
            Some(Value::Array(elements)) => Ok(elements),
            other => Err(self.error(name.to_owned(), "a list", other)),
        }
    }

    fn string(&self, fields: &Map<String, Value>, name: &str) -> Result<String, ImportError> {
        match fields.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            other => Err(self.error(name.to_owned(), "a string", other)),
        }
    }

    fn count(&self, name: &str, value: Option<&Value>) -> Result<usize, ImportError> {
        self.count_at(|| name.to_owned(), value)
    }

    /// A count. The name is made only for an error, since a row has thousands of counts.
    fn count_at(&self, name: impl FnOnce() -> String, value: Option<&Value>) -> Result<usize, ImportError> {
        // Counts past 32 bits are damage, and would overflow the sums taken over them.
        let count = value.and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
        match count {
            Some(count) => Ok(count as usize),
            None => Err(self.error(name(), "an integer of 0 to 4294967295", value)),
        }
    }

    fn error(&self, field: String, expected: &'static str, found: Option<&Value>) -> ImportError {
        ImportError::Field {
            path: PathBuf::from(self.path),
            location: self.location,
            field,
            expected,
            found: found.map_or("nothing".to_owned(), describe),
        }
    }
}

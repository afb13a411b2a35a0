//! Turns records into histories: a record is a message of the one history, or holds a history.
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{
    Format, History, ImportError, ImportNotes, Imported, Location, Message, Role,
    detect::{self, Detected, MESSAGE_LISTS, TURN_LISTS, describe},
    openai,
    parts::{Place, holds_nothing, read_content},
    sharegpt,
};

/// Fields around a message list that are read.
const READ_RECORD_FIELDS: [&str; 5] = ["id", "haystack_id", "system", "task_id", "question_ID"];

type ReadMessage = fn(&Place<'_>, &Value, &mut ImportNotes) -> Result<Vec<Message>, ImportError>;

/// A record's fields, the name of its message list, and the list.
type MessageList<'r> = (&'r Map<String, Value>, &'static str, &'r [Value]);

/// Collects the records of one file.
pub(super) struct Collector {
    path: PathBuf,
    format: Option<Format>,
    /// Whether each record is a message; known from the first.
    records_are_messages: Option<bool>,
    /// Records of the history whose messages are records.
    num_messages: usize,
    histories: Vec<History>,
}

impl Collector {
    pub fn new(path: &Path, format: Option<Format>) -> Self {
        Self {
            path: path.to_owned(),
            format,
            records_are_messages: None,
            num_messages: 0,
            histories: Vec::new(),
        }
    }

    /// Takes one record.
    pub fn push(&mut self, location: Location, record: Value) -> Result<(), ImportError> {
        let format = self.format_of(location, &record)?;
        let are_messages = *self.records_are_messages.get_or_insert_with(|| {
            format == Format::Longwick || record.get("role").is_some() || record.get("from").is_some()
        });
        match are_messages {
            true => self.push_message(format, location, record),
            false => self.push_history(format, location, &record),
        }
    }

    /// What was collected.
    pub fn finish(self) -> Result<Imported, ImportError> {
        let Some(format) = self.format else {
            return Err(ImportError::NoRecords { path: self.path, wanted: "message" });
        };
        if self.histories.iter().all(|history| history.messages.is_empty()) {
            return Err(ImportError::NoMessages { path: self.path, format });
        }
        Ok(Imported { format, histories: self.histories })
    }

    fn format_of(&mut self, location: Location, record: &Value) -> Result<Format, ImportError> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let path = self.path.clone();
        match detect::detect(record) {
            Detected::Supported(format) => Ok(*self.format.insert(format)),
            Detected::Foreign(found) => Err(ImportError::ForeignFormat { path, found }),
            Detected::Unknown(found) => Err(ImportError::UnknownFormat { path, location, found }),
        }
    }

    fn push_message(&mut self, format: Format, location: Location, record: Value) -> Result<(), ImportError> {
        let index = self.num_messages;
        self.num_messages += 1;
        if self.histories.is_empty() {
            self.histories.push(History::default());
        }
        let place = Place { path: &self.path, location, list: "", index };
        let history = &mut self.histories[0];
        if format == Format::Longwick {
            let message = serde_json::from_value(record).map_err(|error| ImportError::Field {
                path: self.path.clone(),
                location,
                field: "message".to_owned(),
                expected: "a message as longwick writes it",
                found: error.to_string(),
            })?;
            history.messages.push(message);
            return Ok(());
        }
        let messages = reader(format)(&place, &record, &mut history.notes)?;
        history.messages.extend(messages);
        Ok(())
    }

    fn push_history(
        &mut self,
        format: Format,
        location: Location,
        record: &Value,
    ) -> Result<(), ImportError> {
        let no_fields = Map::new();
        let (fields, list, messages) = match record {
            Value::Array(messages) => (&no_fields, "messages", messages.as_slice()),
            _ => self.message_list(format, location, record)?,
        };
        let mut history = History { id: read_id(fields), ..History::default() };
        self.prepend_system(location, fields, &mut history)?;
        for (index, message) in messages.iter().enumerate() {
            let place = Place { path: &self.path, location, list, index };
            let read = reader(format)(&place, message, &mut history.notes)?;
            history.messages.extend(read);
        }
        for (name, value) in fields {
            if name != list && !holds_nothing(value) && !READ_RECORD_FIELDS.contains(&name.as_str()) {
                history.notes.dropped_record_fields.add(name);
            }
        }
        self.histories.push(history);
        Ok(())
    }

    fn message_list<'r>(
        &self,
        format: Format,
        location: Location,
        record: &'r Value,
    ) -> Result<MessageList<'r>, ImportError> {
        let names: &[&'static str] = match format {
            Format::Sharegpt => &TURN_LISTS,
            Format::Pairs => &["history"],
            Format::ConpactInstances | Format::ConpactHaystacks => &["messages"],
            Format::Openai | Format::Longwick => &MESSAGE_LISTS,
        };
        let field_error = |field: &str, found: &Value| ImportError::Field {
            path: self.path.clone(),
            location,
            field: field.to_owned(),
            expected: "a list of messages",
            found: describe(found),
        };
        let Value::Object(fields) = record else {
            return Err(field_error(names[0], record));
        };
        let found = names.iter().find_map(|name| Some((*name, fields.get(*name)?)));
        match found {
            Some((name, Value::Array(messages))) => Ok((fields, name, messages)),
            Some((name, other)) => Err(field_error(name, other)),
            None => Err(field_error(names[0], record)),
        }
    }

    /// Anthropic requests and LLaMA-Factory's files keep the system text beside the list.
    fn prepend_system(
        &self,
        location: Location,
        fields: &Map<String, Value>,
        history: &mut History,
    ) -> Result<(), ImportError> {
        let place = Place { path: &self.path, location, list: "", index: 0 };
        let content = read_content(&place, fields.get("system"), &mut history.notes)?;
        if !content.is_empty() {
            history.notes.system_prepended += 1;
            let system = Message { role: Role::System, content, origin: Default::default() };
            history.messages.push(system);
        }
        Ok(())
    }
}

fn reader(format: Format) -> ReadMessage {
    match format {
        Format::Sharegpt => sharegpt::read_turn,
        Format::Pairs => sharegpt::read_pair,
        Format::Openai | Format::Longwick | Format::ConpactInstances | Format::ConpactHaystacks => {
            openai::read_message
        }
    }
}

/// The id under the names the supported sources use.
fn read_id(fields: &Map<String, Value>) -> Option<String> {
    let id = ["id", "haystack_id", "task_id", "question_ID"].iter().find_map(|name| fields.get(*name))?;
    match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

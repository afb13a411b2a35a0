//! Content parts of messages, in the dialects of OpenAI and Anthropic.
use std::path::Path;

use serde_json::{Map, Value};

use super::{ContentPart, ImportError, ImportNotes, Location, ToolCall, ToolResult, detect::describe};

/// Where a message stands, to say so in an error.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub path: &'a Path,
    pub location: Location,
    /// The field that holds the message list; empty where the record is the message.
    pub list: &'a str,
    /// The message's index in its list.
    pub index: usize,
}

impl Place<'_> {
    /// The error that `field` of this message is not what the format wants.
    pub fn error(&self, field: &str, expected: &'static str, found: Option<&Value>) -> ImportError {
        let dot = if field.is_empty() { "" } else { "." };
        let field = match self.list {
            "" => field.to_owned(),
            list => format!("{list}[{}]{dot}{field}", self.index),
        };
        ImportError::Field {
            path: self.path.to_owned(),
            location: self.location,
            field,
            expected,
            found: found.map_or("nothing".to_owned(), describe),
        }
    }

    /// A string field; absent and null are `None`.
    pub fn optional_string<'v>(
        &self,
        object: &'v Map<String, Value>,
        field: &str,
    ) -> Result<Option<&'v str>, ImportError> {
        match object.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.error(field, "a string", Some(other))),
        }
    }

    /// A string field that must be there.
    pub fn string<'v>(&self, object: &'v Map<String, Value>, field: &str) -> Result<&'v str, ImportError> {
        let text = self.optional_string(object, field)?;
        text.ok_or_else(|| self.error(field, "a string", object.get(field)))
    }
}

/// Reads `content`: a string, a list of parts, or nothing.
pub(super) fn read_content(
    place: &Place<'_>,
    content: Option<&Value>,
    notes: &mut ImportNotes,
) -> Result<Vec<ContentPart>, ImportError> {
    match content {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![ContentPart::Text { text: text.clone() }]),
        Some(Value::Array(parts)) => {
            let mut content = Vec::with_capacity(parts.len());
            for (index, part) in parts.iter().enumerate() {
                content.extend(read_part(place, index, part, notes)?);
            }
            Ok(content)
        }
        Some(other) => Err(place.error("content", "a string, a list of parts or null", Some(other))),
    }
}

/// One part. An empty text is nothing.
fn read_part(
    place: &Place<'_>,
    index: usize,
    part: &Value,
    notes: &mut ImportNotes,
) -> Result<Option<ContentPart>, ImportError> {
    let field = |name: &str| format!("content[{index}].{name}");
    let part = match part {
        Value::String(text) => return Ok(Some(ContentPart::Text { text: text.clone() })),
        Value::Object(part) => part,
        other => {
            return Err(place.error(&format!("content[{index}]"), "an object", Some(other)));
        }
    };
    let text_of = |name: &str| match part.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        other => Err(place.error(&field(name), "a string", other)),
    };
    let kind = text_of("type")?;
    let read = match kind.as_str() {
        "text" | "input_text" | "output_text" => ContentPart::Text { text: text_of("text")? },
        "refusal" => {
            notes.refusals_as_text += 1;
            ContentPart::Text { text: text_of("refusal")? }
        }
        "thinking" => ContentPart::Reasoning { text: text_of("thinking")? },
        "reasoning" if part.get("text").is_some_and(Value::is_string) => {
            ContentPart::Reasoning { text: text_of("text")? }
        }
        "tool_use" => ContentPart::ToolCall(ToolCall {
            id: part.get("id").and_then(Value::as_str).map(str::to_owned),
            name: text_of("name")?,
            arguments: arguments_text(part.get("input")),
        }),
        "tool_result" => {
            let content = result_text(place, index, part.get("content"), notes)?;
            let call_id = part.get("tool_use_id").and_then(Value::as_str).map(str::to_owned);
            ContentPart::ToolResult(ToolResult { call_id, name: None, content })
        }
        other => {
            notes.unsupported_parts.add(other);
            ContentPart::Unsupported { kind: other.to_owned() }
        }
    };
    let is_empty =
        matches!(&read, ContentPart::Text { text } | ContentPart::Reasoning { text } if text.is_empty());
    Ok((!is_empty).then_some(read))
}

/// The text of an Anthropic tool result: a string, or parts of which the texts are joined by newlines.
fn result_text(
    place: &Place<'_>,
    index: usize,
    content: Option<&Value>,
    notes: &mut ImportNotes,
) -> Result<String, ImportError> {
    let parts = match content {
        None | Some(Value::Null) => return Ok(String::new()),
        Some(Value::String(text)) => return Ok(text.clone()),
        Some(Value::Array(parts)) => parts,
        other => {
            let field = format!("content[{index}].content");
            return Err(place.error(&field, "a string, a list of parts or null", other));
        }
    };
    let mut texts = Vec::new();
    for part in parts {
        match (part, part.get("text").and_then(Value::as_str)) {
            (Value::String(text), _) => texts.push(text.as_str()),
            (_, Some(text)) => texts.push(text),
            (_, None) => {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or("unnamed");
                notes.unsupported_parts.add(kind);
            }
        }
    }
    Ok(texts.join("\n"))
}

/// Arguments as text: a string as it is, any other value as compact JSON, nothing as `{}`.
pub(super) fn arguments_text(arguments: Option<&Value>) -> String {
    match arguments {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// Whether dropping the value loses nothing: null, an empty list, an empty string.
pub(super) fn holds_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

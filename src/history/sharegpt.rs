//! ShareGPT turns (`{from, value}`) and the `{user, bot}` pairs of MT-Bench-101.
//!
//! Source: the names of speakers in the ShareGPT dumps and in LLaMA-Factory's data format.
use serde_json::Value;

use super::{
    ContentPart, ImportError, ImportNotes, Message, Origin, Role, ToolCall, ToolResult, openai,
    parts::{Place, arguments_text},
};

/// Reads one turn. A turn written as `{role, content}` is read as an OpenAI message.
pub(super) fn read_turn(
    place: &Place<'_>,
    turn: &Value,
    notes: &mut ImportNotes,
) -> Result<Vec<Message>, ImportError> {
    let Value::Object(turn_fields) = turn else {
        return Err(place.error("", "an object with `from` and `value`", Some(turn)));
    };
    if !turn_fields.contains_key("from") && turn_fields.contains_key("role") {
        return openai::read_message(place, turn, notes);
    }
    let from = place.string(turn_fields, "from")?;
    let value = place.optional_string(turn_fields, "value")?.unwrap_or_default();
    let text_parts = |text: &str| match text.is_empty() {
        true => Vec::new(),
        false => vec![ContentPart::Text { text: text.to_owned() }],
    };
    let (role, content) = match from {
        "human" | "user" => (Role::User, text_parts(value)),
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => (Role::Assistant, text_parts(value)),
        "observation" | "tool" | "tool_response" | "function_response" => {
            let result = ToolResult { call_id: None, name: None, content: value.to_owned() };
            (Role::Tool, vec![ContentPart::ToolResult(result)])
        }
        "function_call" | "tool_call" => (Role::Assistant, read_function_call(value, notes)),
        other => {
            let role = Role::from(other.to_owned());
            if matches!(role, Role::Other(_)) {
                notes.unknown_roles.add(other);
            }
            (role, text_parts(value))
        }
    };
    if content.is_empty() {
        notes.empty_messages += 1;
    }
    for (name, value) in turn_fields {
        if !matches!(name.as_str(), "from" | "value") && !value.is_null() {
            notes.dropped_fields.add(name);
        }
    }
    Ok(vec![Message { role, content, origin: Origin { record: place.index } }])
}

/// A text as content; an empty one is none.
fn text_parts(text: &str) -> Vec<ContentPart> {
    match text.is_empty() {
        true => Vec::new(),
        false => vec![ContentPart::Text { text: text.to_owned() }],
    }
}

/// A call written as JSON text: `{name, arguments}` or a list of them.
fn read_function_call(text: &str, notes: &mut ImportNotes) -> Vec<ContentPart> {
    let call_of = |call: &Value| {
        let name = call.get("name")?.as_str()?.to_owned();
        let arguments = arguments_text(call.get("arguments"));
        Some(ContentPart::ToolCall(ToolCall { id: None, name, arguments }))
    };
    let calls = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(calls)) => calls.iter().map(call_of).collect::<Option<Vec<_>>>(),
        Ok(call) => call_of(&call).map(|call| vec![call]),
        Err(_) => None,
    };
    calls.filter(|calls| !calls.is_empty()).unwrap_or_else(|| {
        notes.unparsed_calls += 1;
        vec![ContentPart::Text { text: text.to_owned() }]
    })
}

/// Reads a `{user, bot}` pair as two messages; a side that is missing is left out.
pub(super) fn read_pair(
    place: &Place<'_>,
    pair: &Value,
    notes: &mut ImportNotes,
) -> Result<Vec<Message>, ImportError> {
    let Value::Object(fields) = pair else {
        return Err(place.error("", "an object with `user` and `bot`", Some(pair)));
    };
    if !fields.contains_key("user") && !fields.contains_key("bot") {
        return Err(place.error("", "an object with `user` and `bot`", Some(pair)));
    }
    let mut messages = Vec::new();
    for (field, role) in [("user", Role::User), ("bot", Role::Assistant)] {
        if let Some(text) = place.optional_string(fields, field)? {
            let content = text_parts(text);
            notes.empty_messages += usize::from(content.is_empty());
            messages.push(Message { role, content, origin: Origin { record: place.index } });
        }
    }
    for (name, value) in fields {
        if !matches!(name.as_str(), "user" | "bot") && !value.is_null() {
            notes.dropped_fields.add(name);
        }
    }
    Ok(messages)
}

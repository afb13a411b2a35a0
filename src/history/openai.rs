//! OpenAI chat messages, and what other servers add to them (reasoning, Anthropic content blocks).
//!
//! Source: the OpenAI API reference (chat completions, `messages`), the Anthropic API reference
//! (content blocks), and the `reasoning_content` field of DeepSeek, vLLM and LiteLLM.
use serde_json::{Map, Value};

use super::{
    ContentPart, ImportError, ImportNotes, Message, Origin, Role, ToolCall, ToolResult,
    parts::{Place, arguments_text, holds_nothing, read_content},
};

/// Fields that are read, so that all others can be counted as dropped.
const READ_FIELDS: [&str; 11] = [
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "name",
    "refusal",
    "reasoning_content",
    "reasoning",
    "thinking",
    "thinking_blocks",
];

/// Reads one message. A user message with tool results yields several.
pub(super) fn read_message(
    place: &Place<'_>,
    message: &Value,
    notes: &mut ImportNotes,
) -> Result<Vec<Message>, ImportError> {
    let Value::Object(message) = message else {
        return Err(place.error("", "an object with `role` and `content`", Some(message)));
    };
    let role = read_role(place, message, notes)?;
    let mut content = read_reasoning(place, message, notes)?;
    let body = read_content(place, message.get("content"), notes)?;
    match role {
        Role::Tool => content.extend(tool_results(place, message, body)?),
        _ => {
            content.extend(body);
            if let Some(refusal) = place.optional_string(message, "refusal")? {
                notes.refusals_as_text += 1;
                content.push(ContentPart::Text { text: refusal.to_owned() });
            }
            read_calls(place, message, &mut content, notes)?;
        }
    }
    note_dropped(message, &role, notes);
    if content.is_empty() {
        notes.empty_messages += 1;
    }
    let origin = Origin { record: place.index };
    Ok(split_results(Message { role, content, origin }, notes))
}

fn read_role(
    place: &Place<'_>,
    message: &Map<String, Value>,
    notes: &mut ImportNotes,
) -> Result<Role, ImportError> {
    let name = place.string(message, "role")?;
    if name == "function" {
        return Ok(Role::Tool);
    }
    let role = Role::from(name.to_owned());
    if matches!(role, Role::Other(_)) {
        notes.unknown_roles.add(name);
    }
    Ok(role)
}

/// The model's reasoning from whichever field the server used; the first that is there counts,
/// because servers repeat the same text in several.
fn read_reasoning(
    place: &Place<'_>,
    message: &Map<String, Value>,
    notes: &mut ImportNotes,
) -> Result<Vec<ContentPart>, ImportError> {
    for field in ["reasoning_content", "reasoning", "thinking"] {
        match message.get(field) {
            Some(Value::String(text)) if !text.is_empty() => {
                return Ok(vec![ContentPart::Reasoning { text: text.clone() }]);
            }
            None | Some(Value::Null | Value::String(_)) => {}
            Some(_) => notes.dropped_fields.add(field),
        }
    }
    match message.get("thinking_blocks") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(blocks @ Value::Array(_)) => read_content(place, Some(blocks), notes),
        other => Err(place.error("thinking_blocks", "a list or null", other)),
    }
}

/// The parts of a `tool` message: its text as one result, anything else beside it.
fn tool_results(
    place: &Place<'_>,
    message: &Map<String, Value>,
    body: Vec<ContentPart>,
) -> Result<Vec<ContentPart>, ImportError> {
    if body.iter().any(|part| matches!(part, ContentPart::ToolResult(_))) {
        return Ok(body);
    }
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for part in body {
        match part {
            ContentPart::Text { text } => texts.push(text),
            other => others.push(other),
        }
    }
    let call_id = place.optional_string(message, "tool_call_id")?.map(str::to_owned);
    let name = place.optional_string(message, "name")?.map(str::to_owned);
    let result = ToolResult { call_id, name, content: texts.join("\n") };
    let mut content = vec![ContentPart::ToolResult(result)];
    content.append(&mut others);
    Ok(content)
}

/// Appends `tool_calls` and the older `function_call`.
fn read_calls(
    place: &Place<'_>,
    message: &Map<String, Value>,
    content: &mut Vec<ContentPart>,
    notes: &mut ImportNotes,
) -> Result<(), ImportError> {
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(calls)) => calls.as_slice(),
        other => return Err(place.error("tool_calls", "a list or null", other)),
    };
    // A server that passes Anthropic content on lists each call in both places.
    let in_content: Vec<String> = content
        .iter()
        .filter_map(|part| match part {
            ContentPart::ToolCall(call) => call.id.clone(),
            _ => None,
        })
        .collect();
    for (index, call) in calls.iter().enumerate() {
        let call = read_call(place, index, call)?;
        match call.id.as_ref().is_some_and(|id| in_content.contains(id)) {
            true => notes.repeated_calls += 1,
            false => content.push(ContentPart::ToolCall(call)),
        }
    }
    match message.get("function_call") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(call)) => {
            let Some(name) = call.get("name").and_then(Value::as_str) else {
                return Err(place.error("function_call.name", "a string", call.get("name")));
            };
            let arguments = arguments_text(call.get("arguments"));
            let call = ToolCall { id: None, name: name.to_owned(), arguments };
            content.push(ContentPart::ToolCall(call));
            Ok(())
        }
        other => Err(place.error("function_call", "an object or null", other)),
    }
}

/// One element of `tool_calls`: `{id, function: {name, arguments}}`, `{id, custom: {name, input}}`
/// or the flat `{name, arguments}` of Qwen's data.
fn read_call(place: &Place<'_>, index: usize, call: &Value) -> Result<ToolCall, ImportError> {
    let (inner, path) = match (call.get("function"), call.get("custom")) {
        (Some(function), _) => (function, ".function"),
        (None, Some(custom)) => (custom, ".custom"),
        (None, None) => (call, ""),
    };
    let Some(name) = inner.get("name").and_then(Value::as_str) else {
        let field = format!("tool_calls[{index}]{path}.name");
        return Err(place.error(&field, "a string", inner.get("name")));
    };
    let arguments = inner.get("arguments").or_else(|| inner.get("input"));
    Ok(ToolCall {
        id: call.get("id").and_then(Value::as_str).map(str::to_owned),
        name: name.to_owned(),
        arguments: arguments_text(arguments),
    })
}

/// Counts fields with a value that nothing above reads for this role.
fn note_dropped(message: &Map<String, Value>, role: &Role, notes: &mut ImportNotes) {
    let is_read = |name: &str| match name {
        "name" | "tool_call_id" => *role == Role::Tool,
        "tool_calls" | "function_call" | "refusal" => *role != Role::Tool,
        _ => READ_FIELDS.contains(&name),
    };
    for (name, value) in message {
        if !holds_nothing(value) && !is_read(name) {
            notes.dropped_fields.add(name);
        }
    }
}

/// Anthropic puts tool results into user messages. They become messages of role `tool`, in front
/// of what the person wrote, so that "the user's messages" are the person's.
fn split_results(message: Message, notes: &mut ImportNotes) -> Vec<Message> {
    let is_result = |part: &ContentPart| matches!(part, ContentPart::ToolResult(_));
    if message.role != Role::User || !message.content.iter().any(is_result) {
        return vec![message];
    }
    let Message { role, content, origin } = message;
    let (results, rest): (Vec<_>, Vec<_>) = content.into_iter().partition(is_result);
    notes.split_tool_results += results.len();
    let result_message = |part| Message { role: Role::Tool, content: vec![part], origin: origin.clone() };
    let mut messages: Vec<Message> = results.into_iter().map(result_message).collect();
    if !rest.is_empty() {
        messages.push(Message { role, content: rest, origin });
    }
    messages
}

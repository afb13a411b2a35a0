//! Tells the format of a file from its first record.
use serde_json::{Map, Value};

use super::Format;

/// What the first record shows.
pub(super) enum Detected {
    Supported(Format),
    /// A known tool's format that is not read.
    Foreign(&'static str),
    /// Nothing known; says what was found.
    Unknown(String),
}

/// Fields that hold an OpenAI message list, by the tools that use them.
pub(super) const MESSAGE_LISTS: [&str; 3] = ["messages", "traj", "history"];
/// Fields that hold a ShareGPT turn list.
pub(super) const TURN_LISTS: [&str; 2] = ["conversations", "conversation"];

/// Decides by the fields of the first record. Foreign formats come first: several of them hold
/// something that looks like a message list, and would be read wrongly without a warning.
pub(super) fn detect(record: &Value) -> Detected {
    let object = match record {
        Value::Object(object) => object,
        Value::Array(messages) => return detect_list(messages),
        other => return Detected::Unknown(describe(other)),
    };
    if let Some(found) = foreign(object) {
        return Detected::Foreign(found);
    }
    let has = |name: &str| object.contains_key(name);
    if has("haystack_id") && has("messages") {
        return Detected::Supported(match has("message_tokens") {
            true => Format::ConpactHaystacks,
            false => Format::ConpactInstances,
        });
    }
    if has("role") {
        return Detected::Supported(match has("origin") {
            true => Format::Longwick,
            false => Format::Openai,
        });
    }
    if (has("from") && has("value")) || TURN_LISTS.iter().any(|name| is_list(object, name)) {
        return Detected::Supported(Format::Sharegpt);
    }
    let list = MESSAGE_LISTS.iter().find_map(|name| object.get(*name)?.as_array());
    match list {
        Some(messages) => detect_list(messages),
        None => Detected::Unknown(describe(record)),
    }
}

/// The format of a message list, by its first element.
fn detect_list(messages: &[Value]) -> Detected {
    let Some(first) = messages.first() else {
        return Detected::Supported(Format::Openai);
    };
    let has = |name: &str| first.get(name).is_some();
    if has("role") {
        Detected::Supported(Format::Openai)
    } else if has("from") && has("value") {
        Detected::Supported(Format::Sharegpt)
    } else if has("user") || has("bot") {
        Detected::Supported(Format::Pairs)
    } else {
        Detected::Unknown(format!("a message list whose first element is {}", describe(first)))
    }
}

/// Names the tool whose files have these fields.
fn foreign(object: &Map<String, Value>) -> Option<&'static str> {
    let has = |name: &str| object.contains_key(name);
    let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
    if has("sessionId") && (has("parentUuid") || kind == "queue-operation")
        || kind == "summary" && has("leafUuid")
        || kind == "file-history-snapshot"
    {
        Some("a Claude Code session")
    } else if kind == "session" && has("cwd") && has("timestamp") {
        Some("a pi session")
    } else if matches!(kind, "session_meta" | "response_item") && has("payload") {
        Some("a Codex session")
    } else if is_list(object, "messages") && has("sessionId") && has("agent") {
        Some("a Cline session")
    } else if is_list(object, "trajectory") && (has("environment") || has("info")) {
        Some("a SWE-agent trajectory")
    } else if has("source") && has("timestamp") && (has("action") || has("observation")) {
        Some("an OpenHands event log")
    } else if has("mapping") && has("title") {
        Some("a ChatGPT export")
    } else if is_list(object, "contents") {
        Some("a Gemini request")
    } else {
        None
    }
}

fn is_list(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name).is_some_and(Value::is_array)
}

/// A value's kind, with an object's first fields or a string's beginning, for errors.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => {
            format!("the string {:?}", text.chars().take(40).collect::<String>())
        }
        Value::Array(elements) => format!("an array of {}", elements.len()),
        Value::Object(object) => {
            let cut = |name: &String| name.chars().take(40).collect::<String>();
            let mut names: Vec<String> = object.keys().take(8).map(cut).collect();
            if object.len() > names.len() {
                names.push("...".to_owned());
            }
            format!("an object with the fields [{}]", names.join(", ").escape_debug())
        }
    }
}

//! Tests of the chat templates.
#![allow(clippy::single_range_in_vec_init, reason = "lists of one range are what is meant")]
mod adapting;
mod coverage;
mod goldens;
mod harmony;
mod harmony_parsing;
mod hostile;
mod parsing;
mod prompts;

use std::path::PathBuf;

use super::{ChatTemplate, RenderOptions};
use crate::{
    history::{ContentPart, Message, Role, ToolCall, ToolResult},
    tokenizer::tests::{asset, shared, small},
};

/// Options with a generation prompt and nothing else set.
fn options() -> RenderOptions {
    let date = "2026-03-09".to_owned();
    RenderOptions { add_generation_prompt: true, thinking: None, reasoning_effort: None, date }
}

/// A template by the name that the goldens give it, or `None` with the reason printed.
fn source(name: &str) -> Option<String> {
    if let Some(file) = name.strip_prefix("gguf:") {
        let weights = crate::weights::Weights::open(&asset(file)?).expect("a published GGUF file opens");
        return super::source::find(&weights).expect("its metadata is read");
    }
    let path = match name.starts_with("own/") {
        true => Some(fixture(name)),
        false => shared(&format!("templates/{name}")),
    };
    Some(std::fs::read_to_string(path?).expect("a template is UTF-8"))
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/templates").join(name)
}

fn template(name: &str) -> Option<ChatTemplate> {
    Some(ChatTemplate::from_jinja(&source(name)?, &small()).expect("a published template compiles"))
}

fn text(role: &str, content: &str) -> Message {
    Message::text(Role::from(role.to_owned()), content)
}

fn call(id: &str, name: &str, arguments: &str) -> ContentPart {
    ContentPart::ToolCall(ToolCall { id: Some(id.into()), name: name.into(), arguments: arguments.into() })
}

fn result(id: &str, content: &str) -> Message {
    let result = ToolResult { call_id: Some(id.into()), name: None, content: content.into() };
    Message { content: vec![ContentPart::ToolResult(result)], ..text("tool", "") }
}

/// The fixtures' conversations, from the dictionaries that the export script renders.
fn conversation(value: &serde_json::Value) -> Vec<Message> {
    let messages = value.as_array().expect("a list of messages").iter();
    messages.map(message).collect()
}

fn message(value: &serde_json::Value) -> Message {
    let field = |name: &str| value[name].as_str().map(str::to_owned);
    let content = field("content").expect("content");
    let role = field("role").expect("a role");
    let mut parts = Vec::new();
    if role == "tool" {
        let (call_id, name) = (field("tool_call_id"), field("name"));
        parts.push(ContentPart::ToolResult(ToolResult { call_id, name, content }));
    } else {
        parts.extend(field("reasoning_content").map(|text| ContentPart::Reasoning { text }));
        parts.push(ContentPart::Text { text: content });
    }
    for call in value["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        parts.push(ContentPart::ToolCall(ToolCall {
            id: call["id"].as_str().map(str::to_owned),
            name: function["name"].as_str().expect("a name").to_owned(),
            arguments: function["arguments"].to_string(),
        }));
    }
    Message { content: parts, ..text(&role, "") }
}

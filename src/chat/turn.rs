//! [`Turn`]: messages as templates take them, one dictionary a turn.
use serde_json::{Value, json};

use crate::history::{ContentPart, Message, Role, ToolCall};

/// One dictionary that goes to a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub role: Role,
    /// The content in pieces, each from one message; joined by [`Self::GLUE`].
    pub pieces: Vec<Piece>,
    pub reasoning: Option<String>,
    pub calls: Vec<ToolCall>,
    /// Of a tool's result: the id of the call and the function's name.
    pub answers: Option<(Option<String>, Option<String>)>,
}

/// A stretch of content that must occur in the rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The message it came from.
    pub message: usize,
    pub text: String,
    /// Whether this is the model's own text, in which reasoning may lie that templates rightly drop.
    pub by_model: bool,
}

impl Turn {
    /// Stands between the contents of messages that were folded or merged.
    pub const GLUE: &'static str = "\n\n";

    /// The pieces, each passed through `mark`, as one text.
    pub fn content(&self, mark: &mut dyn FnMut(&str) -> String) -> String {
        let mut content = String::new();
        for piece in &self.pieces {
            let text = mark(&piece.text);
            if !content.is_empty() && !text.is_empty() {
                content.push_str(Self::GLUE);
            }
            content.push_str(&text);
        }
        content
    }

    /// The turn as a dictionary. Each piece of content, then each call's name, passes through `mark` once, in order.
    pub fn to_value(&self, mark: &mut dyn FnMut(&str) -> String) -> Value {
        let content = self.content(mark);
        let mut fields = serde_json::Map::new();
        fields.insert("role".into(), self.role.as_str().into());
        // gpt-oss refuses a call with both content and `thinking`; it has no other use for past reasoning.
        let may_think = content.is_empty() || self.calls.is_empty();
        fields.insert("content".into(), content.into());
        if let Some(reasoning) = &self.reasoning {
            fields.insert("reasoning_content".into(), reasoning.clone().into());
            if may_think {
                fields.insert("thinking".into(), reasoning.clone().into());
            }
        }
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(|call| call_value(call, mark(&call.name)));
            fields.insert("tool_calls".into(), calls.collect());
        }
        if let Some((id, name)) = &self.answers {
            for (key, value) in [("tool_call_id", id), ("name", name)] {
                if let Some(value) = value {
                    fields.insert(key.into(), value.clone().into());
                }
            }
        }
        Value::Object(fields)
    }

    pub fn is_instruction(&self) -> bool {
        matches!(self.role, Role::System | Role::Developer)
    }
}

fn call_value(call: &ToolCall, name: String) -> Value {
    let function = json!({"name": name, "arguments": arguments(call)});
    match &call.id {
        Some(id) => json!({"id": id, "type": "function", "function": function}),
        None => json!({"type": "function", "function": function}),
    }
}

/// The arguments as the object their JSON text stands for, else the text.
pub(super) fn arguments(call: &ToolCall) -> Value {
    match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ => Value::String(call.arguments.clone()),
    }
}

/// Splits messages into turns: results of tools become turns of their own, in front of what else a message says.
pub(super) fn turns(messages: &[Message]) -> Vec<Turn> {
    let mut turns = Vec::with_capacity(messages.len());
    for (message, source) in messages.iter().enumerate() {
        let by_model = source.role == Role::Assistant;
        let mut texts: Vec<&str> = Vec::new();
        let mut reasoning: Vec<&str> = Vec::new();
        let mut calls = Vec::new();
        let before = turns.len();
        for part in &source.content {
            match part {
                ContentPart::Text { text } => texts.push(text),
                ContentPart::Reasoning { text } => reasoning.push(text),
                ContentPart::ToolCall(call) => calls.push(call.clone()),
                ContentPart::ToolResult(result) => turns.push(Turn {
                    role: Role::Tool,
                    pieces: vec![Piece { message, text: result.content.clone(), by_model: false }],
                    reasoning: None,
                    calls: Vec::new(),
                    answers: Some((result.call_id.clone(), result.name.clone())),
                }),
                ContentPart::Unsupported { .. } => {}
            }
        }
        let only_results =
            turns.len() > before && texts.is_empty() && calls.is_empty() && reasoning.is_empty();
        if !only_results {
            turns.push(Turn {
                role: source.role.clone(),
                pieces: vec![Piece { message, text: texts.join("\n"), by_model }],
                reasoning: (!reasoning.is_empty()).then(|| reasoning.join("\n")),
                calls,
                answers: None,
            });
        }
    }
    turns
}

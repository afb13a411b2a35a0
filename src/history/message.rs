//! [`Message`]: one turn of a conversation, with typed content.

use serde::{Deserialize, Serialize};

/// Who speaks. Unknown roles are kept as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Role {
    /// The operator's instructions.
    System,
    /// The application's instructions (between system and user).
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
    /// Any other name, verbatim.
    Other(String),
}

impl Role {
    /// The role's name as chat formats write it.
    pub fn as_str(&self) -> &str {
        match self {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Other(name) => name,
        }
    }
}

impl From<String> for Role {
    fn from(name: String) -> Self {
        match name.as_str() {
            "system" => Role::System,
            "developer" => Role::Developer,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            _ => Role::Other(name),
        }
    }
}

impl From<Role> for String {
    fn from(role: Role) -> Self {
        role.as_str().to_owned()
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// One piece of a message's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning, which is never part of its answer.
    Reasoning {
        /// The reasoning text.
        text: String,
    },
    /// A call the assistant made.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// Content longwick does not read (an image, audio), kept by kind.
    Unsupported {
        /// The kind as the source named it.
        kind: String,
    },
}

/// A tool call of an assistant message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, where the source has one.
    pub id: Option<String>,
    /// The function's name.
    pub name: String,
    /// The arguments, as the source wrote them (normally JSON text).
    pub arguments: String,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call it answers, where the source has one.
    pub call_id: Option<String>,
    /// The function's name, where the source has one.
    pub name: Option<String>,
    /// The result as text.
    pub content: String,
}

/// Where in its source file a message stood.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Index of the record (line or array element) in the file, from 0.
    pub record: usize,
}

/// One message of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The content, in order.
    pub content: Vec<ContentPart>,
    /// Where the message came from; the default for messages made by longwick.
    #[serde(default)]
    pub origin: Origin,
}

impl Message {
    /// A message of one text part.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        let content = vec![ContentPart::Text { text: text.into() }];
        Self { role, content, origin: Origin::default() }
    }

    /// The text parts and tool results joined by newlines; reasoning and calls are left out.
    pub fn plain_text(&self) -> String {
        let parts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|part| match part {
                ContentPart::Text { text } => Some(text.as_str()),
                ContentPart::ToolResult(result) => Some(result.content.as_str()),
                _ => None,
            })
            .collect();
        parts.join("\n")
    }
}

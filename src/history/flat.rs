//! [`FlatMessage`]: a message as `{role, content}`, the form of conpact's files.
use serde::{Deserialize, Serialize};

use super::{ContentPart, Message, Role};

/// A message as plain text.
///
/// # Flattening
/// Parts are joined by newlines, in order, in the form of conpact's haystacks:
/// * text as it is;
/// * a call as `[tool call] NAME ARGUMENTS`, on one line where the arguments are;
/// * a result as `[tool result]`, a newline, and its text;
/// * content longwick does not read as `[KIND]`, e.g. `[image_url]`;
/// * reasoning is left out: it is never sent back to a model.
///
/// A message of role `tool` gets the role `assistant`, because the flat form has no tools.
/// The other direction keeps the text as one text part and parses nothing back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlatMessage {
    /// The role's name.
    pub role: String,
    /// The text.
    pub content: String,
}

impl From<&Message> for FlatMessage {
    fn from(message: &Message) -> Self {
        let role = match &message.role {
            Role::Tool => Role::Assistant.as_str(),
            role => role.as_str(),
        };
        let texts: Vec<String> = message.content.iter().filter_map(flat_part).collect();
        Self { role: role.to_owned(), content: texts.join("\n") }
    }
}

impl From<Message> for FlatMessage {
    fn from(message: Message) -> Self {
        Self::from(&message)
    }
}

impl From<FlatMessage> for Message {
    fn from(flat: FlatMessage) -> Self {
        Message::text(Role::from(flat.role), flat.content)
    }
}

impl From<&FlatMessage> for Message {
    fn from(flat: &FlatMessage) -> Self {
        Message::from(flat.clone())
    }
}

fn flat_part(part: &ContentPart) -> Option<String> {
    match part {
        ContentPart::Text { text } => Some(text.clone()),
        ContentPart::Reasoning { .. } => None,
        ContentPart::ToolCall(call) => Some(format!("[tool call] {} {}", call.name, call.arguments)),
        ContentPart::ToolResult(result) => Some(format!("[tool result]\n{}", result.content)),
        ContentPart::Unsupported { kind } => Some(format!("[{kind}]")),
    }
}

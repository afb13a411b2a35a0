//! The plain transcript: how a conversation is written for a model without a chat template.
//!
//! Each message is `Role: content`, followed by an empty line; the prompt ends with `Assistant:`, without a space, so
//! that the model's first token may begin with one. Calls and results of tools are written with their names:
//!
//! ```text
//! System: Answer briefly.
//!
//! User: What is the tide at noon?
//!
//! Assistant: I look it up.
//!
//! Tool call: tide {"hour": 12}
//!
//! Tool result: low
//!
//! Assistant:
//! ```
use super::{locate::Found, turn::Turn};
use crate::history::Role;

/// Part of the digest; to be changed with the format.
pub(super) const FORMAT: &str = "longwick plain transcript 1";

/// The roles whose label, on a line of its own after an empty one, ends the model's turn.
const LABELS: [&str; 6] = ["System", "Developer", "User", "Assistant", "Tool call", "Tool result"];

/// Strings at which the model has begun the next message by itself.
pub(super) fn stop_strings() -> Vec<String> {
    LABELS.iter().map(|label| format!("\n\n{label}:")).collect()
}

/// Writes the transcript; returns also the bytes of each piece of content and each call, with its message.
pub(super) fn write(turns: &[Turn], add_generation_prompt: bool) -> (String, Found) {
    let mut text = String::new();
    let mut found = Vec::new();
    let mut entry = |text: &mut String, label: &str, message: usize, content: &str| {
        text.push_str(label);
        text.push_str(": ");
        let start = text.len();
        text.push_str(content.trim());
        found.push((message, start..text.len()));
        text.push_str("\n\n");
    };
    for turn in turns {
        for piece in &turn.pieces {
            if turn.calls.is_empty() || !piece.text.trim().is_empty() {
                entry(&mut text, label(&turn.role), piece.message, &piece.text);
            }
        }
        let message = turn.pieces.first().map_or(0, |piece| piece.message);
        for call in &turn.calls {
            entry(&mut text, "Tool call", message, &format!("{} {}", call.name, call.arguments));
        }
    }
    text.push_str(if add_generation_prompt { "Assistant:" } else { "" });
    (text, found)
}

fn label(role: &Role) -> &str {
    match role {
        Role::System => "System",
        Role::Developer => "Developer",
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::Tool => "Tool result",
        Role::Other(name) => name,
    }
}

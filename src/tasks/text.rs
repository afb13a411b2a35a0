//! Text of messages, and its length in tokens.

use crate::history::{ContentPart, Message};
use crate::tokenizer::{SpecialTokens, Tokenizer, TokenizerError};

/// The text parts of a message joined by newlines: what its author wrote, without tool results, calls and reasoning.
pub(super) fn written_text(message: &Message) -> String {
    let parts: Vec<&str> = message
        .content
        .iter()
        .filter_map(|part| match part {
            ContentPart::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    parts.join("\n")
}

/// Tokens of the messages' content: text, tool results, and the names and arguments of tool calls.
///
/// Neither the template's markers nor reasoning (which templates drop from a history) are counted, so the number can
/// be compared across models' templates and between a history and its compaction.
///
/// # Errors
/// Those of [`Tokenizer::encode`].
pub fn count_tokens(tokenizer: &Tokenizer, messages: &[Message]) -> Result<usize, TokenizerError> {
    let mut total = 0;
    for part in messages.iter().flat_map(|message| &message.content) {
        let mut count = |text: &str| -> Result<(), TokenizerError> {
            total += tokenizer.encode(text, SpecialTokens::AsText)?.len();
            Ok(())
        };
        match part {
            ContentPart::Text { text } => count(text)?,
            ContentPart::ToolResult(result) => count(&result.content)?,
            ContentPart::ToolCall(call) => {
                count(&call.name)?;
                count(&call.arguments)?;
            }
            ContentPart::Reasoning { .. } | ContentPart::Unsupported { .. } => {}
        }
    }
    Ok(total)
}

/// The last `limit` tokens of a text, as text; the whole text where it has no more than that.
///
/// A character cut by the first token's edge is left out.
pub(super) fn last_tokens(tokenizer: &Tokenizer, text: &str, limit: usize) -> Result<String, TokenizerError> {
    let tokens = tokenizer.encode(text, SpecialTokens::AsText)?;
    if tokens.len() <= limit {
        return Ok(text.to_owned());
    }
    let tail = tokenizer.decode(&tokens[tokens.len() - limit..]);
    Ok(tail.trim_start_matches(char::REPLACEMENT_CHARACTER).to_owned())
}

/// Runs of whitespace become one space; leading and trailing whitespace goes.
pub(super) fn fold_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

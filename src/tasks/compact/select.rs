//! Compactors that choose among a history's messages and write nothing new.

use super::spec::TurnBudget;
use crate::history::{ContentPart, Message, Role};
use crate::tasks::text::written_text;
use crate::tokenizer::{SpecialTokens, Tokenizer, TokenizerError};
use std::num::NonZeroUsize;

/// Exactly the last `count` messages, as they are.
pub(super) fn recent(history: &[Message], count: NonZeroUsize) -> Vec<Message> {
    history[history.len().saturating_sub(count.get())..].to_vec()
}

/// The user's own messages within the budget, in their order.
///
/// A user message is kept whole or not at all; what a tool answered inside one is not the user's text and is left out.
pub(super) fn user_turns(
    history: &[Message],
    budget: TurnBudget,
    tokenizer: &Tokenizer,
) -> Result<Vec<Message>, TokenizerError> {
    let turns: Vec<Message> =
        history.iter().filter(|message| message.role == Role::User).filter_map(written_alone).collect();
    let count = |turn: &Message| -> Result<usize, TokenizerError> {
        Ok(tokenizer.encode(&written_text(turn), SpecialTokens::AsText)?.len())
    };
    let (head_budget, tail_budget) = match budget {
        TurnBudget::Newest { tokens } => (0, tokens),
        TurnBudget::HeadAndTail { head, tail } => (head, tail),
    };
    let mut used = 0;
    let mut head = 0;
    // Only the messages that can matter are tokenised: a budget is small and a history long.
    while head < turns.len() && head_budget > 0 {
        used += count(&turns[head])?;
        if used > head_budget {
            break;
        }
        head += 1;
    }
    used = 0;
    let mut tail = turns.len();
    while tail > head && tail_budget > 0 {
        used += count(&turns[tail - 1])?;
        if used > tail_budget {
            break;
        }
        tail -= 1;
    }
    let mut kept = turns;
    kept.drain(head..tail);
    Ok(kept)
}

/// The message with its text parts alone; `None` where they say nothing.
fn written_alone(message: &Message) -> Option<Message> {
    let content: Vec<ContentPart> =
        message.content.iter().filter(|part| matches!(part, ContentPart::Text { .. })).cloned().collect();
    let kept = Message { role: message.role.clone(), content, origin: message.origin.clone() };
    (!written_text(&kept).trim().is_empty()).then_some(kept)
}

/// Tool results in the history.
pub(super) fn count_results(history: &[Message]) -> usize {
    history
        .iter()
        .flat_map(|message| &message.content)
        .filter(|part| matches!(part, ContentPart::ToolResult(_)))
        .count()
}

/// All messages, with a stub for each tool result but the newest `keep`. Calls stay beside their results.
pub(super) fn mask_observations(history: &[Message], keep: usize) -> Vec<Message> {
    let mut to_mask = count_results(history).saturating_sub(keep);
    let mut masked = history.to_vec();
    for part in masked.iter_mut().flat_map(|message| &mut message.content) {
        if to_mask == 0 {
            break;
        }
        if let ContentPart::ToolResult(result) = part {
            result.content = stub(&result.content);
            to_mask -= 1;
        }
    }
    masked
}

fn stub(content: &str) -> String {
    format!("[tool result left out: {} characters]", content.chars().count())
}

//! What a model is asked about one turn.

use super::ConstraintRegistry;
use crate::history::Message;

/// One user turn, as a prompt sees it.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// What the user wrote.
    pub user_message: &'a str,
    /// The end of the assistant message before it, where there is one.
    pub assistant_message: Option<&'a str>,
    /// The constraints found in earlier turns.
    pub registry: &'a ConstraintRegistry,
}

/// What asks a model for a turn's constraints.
pub trait TurnPrompt: Send + Sync {
    /// The messages whose answer is `{"scs":[{"text","evidence"}]}`.
    fn messages(&self, turn: &Turn<'_>) -> Vec<Message>;
}

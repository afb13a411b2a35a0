//! A protocol's prompts, as the tasks take them.

use super::prompts::PromptPair;
use super::protocol::{ExtractionPrompt, Protocol, ProtocolError};
use crate::history::{FlatMessage, Message, Role};
use crate::tasks::compact::{ExtractedConstraints, SummaryPrompt};
use crate::tasks::extract::{ConstraintRegistry, Turn, TurnPrompt};
use std::sync::Arc;

/// One of a protocol's summarisation prompts.
#[derive(Debug, Clone)]
pub struct NamedSummary {
    protocol: Arc<Protocol>,
    name: String,
}

impl NamedSummary {
    /// The prompt of that name.
    ///
    /// # Errors
    /// [`ProtocolError::NoPrompt`] lists the names there are.
    pub fn new(protocol: Arc<Protocol>, name: &str) -> Result<Self, ProtocolError> {
        protocol.compaction_prompt(name, &[])?;
        Ok(Self { protocol, name: name.to_owned() })
    }
}

impl SummaryPrompt for NamedSummary {
    fn messages(&self, history: &[Message]) -> Vec<Message> {
        let flat: Vec<FlatMessage> = history.iter().map(FlatMessage::from).collect();
        // The name was looked up when this was made, and a protocol does not change.
        let prompt = self.protocol.compaction_prompt(&self.name, &flat).unwrap_or_default();
        prompt.into_iter().map(Message::from).collect()
    }
}

impl TurnPrompt for ExtractionPrompt {
    fn messages(&self, turn: &Turn<'_>) -> Vec<Message> {
        self.render(turn.user_message, turn.assistant_message, &turn.registry.texts()).into_messages()
    }
}

impl ExtractionPrompt {
    /// The registry as `+extractor` appends it.
    pub fn constraints(&self, registry: &ConstraintRegistry) -> ExtractedConstraints {
        let message = self.registry_turn(&registry.texts()).map(|text| Message::text(Role::User, text));
        ExtractedConstraints { message }
    }
}

impl PromptPair {
    /// The two messages; a system message without text is left out.
    pub fn into_messages(self) -> Vec<Message> {
        let system = (!self.system.is_empty()).then(|| Message::text(Role::System, self.system));
        system.into_iter().chain([Message::text(Role::User, self.user)]).collect()
    }
}

impl Protocol {
    /// The messages that ask whether `constraint` is still stated in the compacted messages.
    pub fn judge_messages(&self, constraint: &str, compacted: &[Message]) -> Vec<Message> {
        let flat: Vec<FlatMessage> = compacted.iter().map(FlatMessage::from).collect();
        self.judge_prompts(constraint, &flat).into_messages()
    }

    /// As [`Protocol::judge_messages`], for a context that is one text already.
    pub fn judge_text_messages(&self, constraint: &str, context: &str) -> Vec<Message> {
        let system = self.judge.system.render(&[]);
        let user = self.judge.user.render(&[("constraint", constraint), ("context", context)]);
        PromptPair { system, user }.into_messages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compint::protocol::BUILT_IN;
    use crate::tasks::extract::FoundConstraint;

    fn protocol() -> Arc<Protocol> {
        Arc::new(Protocol::load(BUILT_IN).unwrap())
    }

    fn user(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    #[test]
    fn a_named_summary_holds_the_history() {
        let prompt = NamedSummary::new(protocol(), "continuity").unwrap();
        let messages = prompt.messages(&[user("first words"), Message::text(Role::Assistant, "an answer")]);
        let text: String = messages.iter().map(Message::plain_text).collect();
        assert!(text.contains("first words") && text.contains("an answer"));
        let unknown = NamedSummary::new(protocol(), "no such").unwrap_err();
        assert!(unknown.to_string().contains("continuity"), "{unknown}");
    }

    #[test]
    fn an_extraction_prompt_shows_turn_and_registry() {
        let protocol = protocol();
        let prompt = protocol.extraction_prompt("default").unwrap();
        let mut registry = ConstraintRegistry::default();
        assert_eq!(prompt.constraints(&registry).message, None);
        registry.add(vec![FoundConstraint { text: "Use tabs.".into(), evidence: String::new() }], 0, "");
        let turn =
            Turn { user_message: "the turn", assistant_message: Some("the answer"), registry: &registry };
        let messages = prompt.messages(&turn);
        assert_eq!(messages.len(), 2);
        let text = messages[1].plain_text();
        assert!(
            text.contains("the turn") && text.contains("the answer") && text.contains("1. Use tabs."),
            "{text}"
        );
        let appended = prompt.constraints(&registry).message.unwrap();
        assert_eq!(appended.role, Role::User);
        assert!(appended.plain_text().ends_with("\n1. Use tabs."));
    }

    #[test]
    fn the_judge_sees_the_same_text_either_way() {
        let protocol = protocol();
        let messages = protocol.judge_messages("Use tabs.", &[user("a"), user("b")]);
        let context =
            protocol.judge.context.render(&[FlatMessage::from(user("a")), FlatMessage::from(user("b"))]);
        assert_eq!(messages, protocol.judge_text_messages("Use tabs.", &context));
        assert!(messages[1].plain_text().contains("Use tabs."));
    }
}

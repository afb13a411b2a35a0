//! Rendering a [`Protocol`]'s prompts.

use super::protocol::{ExtractionPrompt, MessageList, PromptPart, Protocol, ProtocolError};
use super::pyrandom::PyRandom;
use crate::history::FlatMessage;
use crate::tasks::probe::Letter;

/// A system and a user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptPair {
    /// The system message.
    pub system: String,
    /// The user message.
    pub user: String,
}

impl Protocol {
    /// The forced-choice probe, and the letter that is the compliant behaviour.
    ///
    /// The options are swapped (compliant as B) where the first `random()` of `swap_seed` is below one half.
    pub fn probe_prompt(
        &self,
        probe: &str,
        compliant: &str,
        noncompliant: &str,
        swap_seed: u64,
    ) -> (String, Letter) {
        let swapped = PyRandom::new(swap_seed).random() < 0.5;
        let (option_a, option_b, letter) =
            if swapped { (noncompliant, compliant, Letter::B) } else { (compliant, noncompliant, Letter::A) };
        let prompt = self.probe.render(&[("probe", probe), ("option_a", option_a), ("option_b", option_b)]);
        (prompt, letter)
    }

    /// The retention judge's messages: is `constraint` still stated in `compacted`?
    pub fn judge_prompts(&self, constraint: &str, compacted: &[FlatMessage]) -> PromptPair {
        let context = self.judge.context.render(compacted);
        PromptPair {
            system: self.judge.system.render(&[]),
            user: self.judge.user.render(&[("constraint", constraint), ("context", &context)]),
        }
    }

    /// The messages that ask a model to summarise `history` with the named prompt.
    ///
    /// # Errors
    /// [`ProtocolError::NoPrompt`] lists the names there are.
    pub fn compaction_prompt(
        &self,
        name: &str,
        history: &[FlatMessage],
    ) -> Result<Vec<FlatMessage>, ProtocolError> {
        let parts = self
            .compaction
            .get(name)
            .ok_or_else(|| self.no_prompt("compaction", name, self.compaction.keys()))?;
        let mut messages = Vec::new();
        for part in parts {
            match part {
                PromptPart::History(_) => messages.extend_from_slice(history),
                PromptPart::Message(message) => {
                    // A transcript of a long history is megabytes, so it is written only where it is asked for.
                    let wanted = message.content.has_place("transcript");
                    let transcript = if wanted { self.transcript.render(history) } else { String::new() };
                    let content = message.content.render(&[("transcript", &transcript)]);
                    messages.push(FlatMessage { role: message.role.clone(), content });
                }
            }
        }
        Ok(messages)
    }

    /// The named extraction prompt.
    ///
    /// # Errors
    /// [`ProtocolError::NoPrompt`] lists the names there are.
    pub fn extraction_prompt(&self, name: &str) -> Result<&ExtractionPrompt, ProtocolError> {
        self.extraction.get(name).ok_or_else(|| self.no_prompt("extraction", name, self.extraction.keys()))
    }

    fn no_prompt<'a>(
        &self,
        kind: &'static str,
        name: &str,
        names: impl Iterator<Item = &'a String>,
    ) -> ProtocolError {
        let names: Vec<&str> = names.map(String::as_str).collect();
        let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let hint = if self.name == super::protocol::BUILT_IN {
            ""
        } else {
            "; scripts/fetch_protocol.sh --repo DIR adds those of a compaction-integrity checkout"
        };
        ProtocolError::NoPrompt { protocol: self.name.clone(), kind, name: name.to_owned(), available, hint }
    }
}

impl MessageList {
    /// The messages as one text.
    pub fn render(&self, messages: &[FlatMessage]) -> String {
        let rendered = messages
            .iter()
            .map(|message| self.message.render(&[("role", &message.role), ("content", &message.content)]));
        let lines: Vec<String> =
            self.open.clone().into_iter().chain(rendered).chain(self.close.clone()).collect();
        lines.join(&self.separator)
    }
}

impl ExtractionPrompt {
    /// The messages that ask for the session constraints of one user turn.
    ///
    /// `assistant_message` is the one before the turn, where there is one; `registry` holds the constraints found in
    /// earlier turns.
    pub fn render(
        &self,
        user_message: &str,
        assistant_message: Option<&str>,
        registry: &[String],
    ) -> PromptPair {
        let entries = if registry.is_empty() { self.registry_empty.clone() } else { numbered(registry) };
        let registry_block = self.registry.render(&[("entries", &entries)]);
        let assistant_block = assistant_message
            .map(|text| self.assistant_message.render(&[("text", text)]))
            .unwrap_or_default();
        let values = [
            ("user_message", user_message),
            ("registry", registry_block.as_str()),
            ("assistant_message", assistant_block.as_str()),
        ];
        PromptPair { system: self.system.render(&[]), user: self.user.render(&values) }
    }

    /// The content of the user message that carries the registry after a compacted context; `None` while it is empty.
    pub fn registry_turn(&self, registry: &[String]) -> Option<String> {
        if registry.is_empty() {
            return None;
        }
        let entries = numbered(registry);
        Some(match &self.registry_header {
            Some(header) => format!("{header}\n{entries}"),
            None => entries,
        })
    }
}

fn numbered(entries: &[String]) -> String {
    let lines: Vec<String> =
        entries.iter().enumerate().map(|(index, text)| format!("{}. {text}", index + 1)).collect();
    lines.join("\n")
}

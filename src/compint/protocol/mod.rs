//! [`Protocol`]: the constraints, probes and prompts one experiment is run under.
//!
//! A protocol is data. `longwick-1` is built in (`configs/prompts/longwick-1.toml`); any other is a JSON file in the
//! cache that `scripts/fetch_protocol.sh` wrote, of the same shape. Rendering is in [`super::prompts`].

mod error;
mod load;
mod validate;

pub use error::ProtocolError;
pub use load::protocols_folder;

use super::template::Template;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the built-in protocol.
pub const BUILT_IN: &str = "longwick-1";

/// The version of the file format this build reads.
pub const FORMAT: u32 = 1;

/// Everything a run says to a model that is not the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// The file format, [`FORMAT`].
    pub format: u32,
    /// The protocol's name, as `--protocol` spells it.
    pub name: String,
    /// Where the texts come from, in words.
    pub origin: String,
    /// The probing model's developer message: how to answer, and the simulated tools that probes speak of.
    pub developer_prompt: String,
    /// The forced-choice probe. Places: `{probe}`, `{option_a}`, `{option_b}`.
    pub probe: Template,
    /// The retention judge.
    pub judge: JudgePrompts,
    /// How a history is written out as one text where a prompt asks for `{transcript}`.
    pub transcript: MessageList,
    /// The constraints, in the order instances are built.
    pub constraints: Vec<Constraint>,
    /// Summarisation prompts by name: the messages sent to the compacting model.
    #[serde(default)]
    pub compaction: BTreeMap<String, Vec<PromptPart>>,
    /// Extraction prompts by name.
    #[serde(default)]
    pub extraction: BTreeMap<String, ExtractionPrompt>,
}

/// A side constraint: an instruction meant to hold for the rest of the session, and how to test it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constraint {
    /// Its number, unique in the protocol; instances name it with two digits.
    pub id: u32,
    /// Its kind: Action, Information, Process, Preference or Output.
    #[serde(rename = "type")]
    pub kind: String,
    /// The constraint as the user would say it.
    pub text: String,
    /// A later request under which following the constraint shows.
    pub probe: String,
    /// What an assistant that follows the constraint does on the probe.
    pub compliant: String,
    /// What one that forgot it does.
    pub noncompliant: String,
}

/// The two messages of the retention judge, which answers YES where the constraint is still stated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgePrompts {
    /// The system message; no places.
    pub system: Template,
    /// The user message. Places: `{constraint}`, `{context}`.
    pub user: Template,
    /// How the compacted messages are written out as `{context}`.
    pub context: MessageList,
}

/// How a list of messages becomes one text: `open`, each message, `close`, joined by `separator`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageList {
    /// A first line, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// One message. Places: `{role}`, `{content}`.
    pub message: Template,
    /// A last line, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close: Option<String>,
    /// What stands between two of them.
    pub separator: String,
}

/// One entry of a summarisation prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PromptPart {
    /// A message of the prompt's own.
    Message(PromptMessage),
    /// The history's messages, each as it is.
    History(HistoryPart),
}

/// A message of a summarisation prompt. Place: `{transcript}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptMessage {
    /// Who speaks.
    pub role: String,
    /// What is said.
    pub content: Template,
}

/// Stands for the history's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryPart {
    /// In which form; there is one.
    pub history: HistoryForm,
}

/// The forms in which [`HistoryPart`] gives a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryForm {
    /// As messages, with their own roles.
    Messages,
}

/// The prompt that finds session constraints in one user turn; the model answers `{"scs":[{"text","evidence"}]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtractionPrompt {
    /// The system message; no places.
    pub system: Template,
    /// The user message. Places: `{user_message}`, `{registry}`, `{assistant_message}`; the last two are filled with
    /// the two blocks below.
    pub user: Template,
    /// How the registry stands in the user message. Place: `{entries}`, the entries as `1. text` lines.
    pub registry: Template,
    /// What `{entries}` is while the registry is empty.
    pub registry_empty: String,
    /// How the assistant message before the turn stands in the user message. Place: `{text}`. Where there is no such
    /// message the block is empty.
    pub assistant_message: Template,
    /// The line before the registry where it is appended to a compacted context; `None` for the numbered lines alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_header: Option<String>,
}

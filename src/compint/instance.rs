//! [`Instance`]: one history with one constraint in it.

use super::Letter;
use super::injection::Position;
use super::pyjson;
use crate::history::FlatMessage;
use serde::{Deserialize, Serialize};

/// One (history, constraint) pair. Fields and their order are conpact's, so a row loads as its `Instance(**row)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// `<haystack_id>:sc<two digits>`.
    pub id: String,
    /// The dataset the history comes from.
    pub source: String,
    /// The history's name.
    pub haystack_id: String,
    /// The length asked for, in tokens.
    pub target_length: usize,
    /// Tokens of `messages_without_sc`, by the haystack's own counts.
    pub token_length: usize,
    /// Where the constraint stands.
    pub position: Position,
    /// How many turns were asked to state it; 1 unless `position` is multi.
    pub repeat: usize,
    /// Whether the framing calls it important.
    pub strict: bool,
    /// Whether the framing names its scope.
    pub direct: bool,
    /// The constraint's number.
    pub sc_id: u32,
    /// The constraint's type.
    pub sc_type: String,
    /// The constraint as written: what the judge looks for.
    pub sc_text: String,
    /// The constraint as framed: what stands in `messages`.
    pub sc_rendered: String,
    /// The messages that state it, ascending.
    pub sc_message_indices: Vec<usize>,
    /// The probing model's system message.
    pub system_prompt: String,
    /// The probing model's developer message.
    pub developer_prompt: String,
    /// The history with the constraint.
    pub messages: Vec<FlatMessage>,
    /// The history without it.
    pub messages_without_sc: Vec<FlatMessage>,
    /// The request that tests the constraint.
    pub probe: String,
    /// The compliant behaviour.
    pub correct_answer: String,
    /// The other behaviour.
    pub incorrect_answer: String,
    /// The seed that decides which option is A, in 0..2^31.
    pub swap_seed: u32,
    /// The letter of the compliant behaviour.
    pub compliant_letter: Letter,
    /// The user turn that probes.
    pub probe_prompt: String,
    /// The same with the constraint stated just before it.
    pub post_sc_probe_prompt: String,
    /// Fields of the source, as JSON text.
    pub meta: String,
}

impl Instance {
    /// The instance as the line that Python's `json.dumps(instance.to_dict())` gives.
    ///
    /// # Errors
    /// What serde_json says; an instance holds nothing that JSON cannot.
    pub fn to_json_line(&self) -> Result<String, serde_json::Error> {
        pyjson::dumps(self)
    }
}

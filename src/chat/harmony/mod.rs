//! Harmony, the format of gpt-oss: messages with roles, recipients and channels.
//!
//! Conversations are rendered as OpenAI's own renderer does it, which the published Jinja template differs from: the template
//! makes one developer message of a leading system or developer message, and drops later ones. Here every message keeps its
//! role, and the system message with the model's identity, date, effort and channels stands in front.
//!
//! The vocabulary is the model's own tokenizer; OpenAI's crate brings one of its own, which it takes from the network.
//!
//! # Source
//! <https://cookbook.openai.com/articles/openai-harmony>; the rules and golden files of github.com/openai/harmony
//! (Apache-2.0), read 2026-11.
mod conversation;
mod header;
mod message;
mod parser;
mod system;
mod tools;
mod typescript;

pub use conversation::without_past_analysis;
pub use message::HarmonyMessage;
pub use parser::{HarmonyParser, ParsedMessage, Recovery, StreamStart};
pub use system::{ReasoningEffort, SystemMessage, developer_content};
pub use tools::{Tool, ToolNamespace};

pub(super) use conversation::render;

/// Part of a template's digest; to be changed with the rendering.
pub(super) const FORMAT: &str = "longwick harmony 1";

const START: &str = "<|start|>";
const MESSAGE: &str = "<|message|>";
const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";
const END: &str = "<|end|>";
const RETURN: &str = "<|return|>";
const CALL: &str = "<|call|>";

/// The model's role.
const ASSISTANT: &str = "assistant";

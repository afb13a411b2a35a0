//! Extraction: the user's session constraints, turn by turn.
//!
//! For each user turn a model sees the user's message, the end of the assistant message before it, and the registry so
//! far; what it finds is added to the [`ConstraintRegistry`]. A turn that fails is recorded, and the next one goes on.

mod job;
mod parse;
mod prompt;
mod registry;

pub use job::{ExtractJob, ExtractSettings, Extraction, TurnFailure, TurnRecord};
pub use parse::{ExtractionLimits, ExtractionParse, FoundConstraint, parse_answer, parse_paper};
pub use prompt::{Turn, TurnPrompt};
pub use registry::{ConstraintRegistry, RegisteredConstraint};

#[cfg(test)]
mod tests;

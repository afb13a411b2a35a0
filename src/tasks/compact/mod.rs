//! Compaction: a history in, a shorter one out.
//!
//! [`CompactorSpec`] names a compactor as configurations write it (`user-turns:800+extractor`), [`CompactJob`] runs
//! one on a history, [`CompactionResult`] holds what came out or why nothing did.
//!
//! [`lingua`] is the one compactor with a model of its own beside the engine's.
//!
//! All compactors but `recent-N` and `llmlingua2` keep a tool call with its result, or drop both.

mod job;
pub mod lingua;
mod select;
mod spec;

pub use job::{
    CompactError, CompactJob, CompactionFailure, CompactionInput, CompactionResult, CutoffPolicy,
    ExtractedConstraints, SummaryPrompt,
};
pub use spec::{CompactorKind, CompactorSpec, CompactorSpecError, TurnBudget};

#[cfg(test)]
mod tests;

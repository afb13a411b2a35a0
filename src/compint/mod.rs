//! The benchmark: does a constraint survive compaction?
//!
//! # Code map
//! [`Protocol`] holds the texts, [`prompts`] renders them; [`framing`] and [`injection`] put a
//! constraint into a history and [`builder`] crosses histories with constraints into [`Instance`]s;
//! [`metrics`] turns results into tables. [`config`] reads an experiment, [`runner`] runs it and
//! hands each result to a [`runner::ResultSink`]. [`pyrandom`], [`pytext`] and [`pyjson`] are Python's
//! generator, text operations and number formats, on which equality with the published tool
//! (conpact 0.1.0) rests.
//!
//! # Source
//! "Lost in Compaction", arXiv 2608.11242, and its benchmark's PyPI package conpact 0.1.0.

pub mod builder;
pub mod condition;
pub mod config;
pub mod framing;
pub mod injection;
pub mod instance;
pub mod metrics;
pub mod prompts;
pub mod protocol;
pub mod pyjson;
pub mod pyrandom;
pub mod pytext;
pub mod runner;
pub mod task_prompts;
pub mod template;

pub use builder::{
    InstanceBuilder, InstanceError, InstanceOptions, Selection, build_instances, select_haystacks,
};
pub use condition::Condition;
pub use injection::Position;
pub use instance::Instance;
pub use prompts::PromptPair;
pub use protocol::{Constraint, Protocol, ProtocolError};
pub use pyrandom::PyRandom;
pub use task_prompts::NamedSummary;

pub use crate::tasks::probe::Letter;

#[cfg(test)]
mod tests;

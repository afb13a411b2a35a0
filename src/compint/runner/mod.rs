//! The runner: instances x compactors, from a [`RunConfig`] to results in a [`ResultSink`].
//!
//! # Order
//! Work is ordered by model, so that few loads are needed, then by history, so that one history's prompts meet each
//! other in the cache. Within a history, what needs nothing else (extraction, base compactions, probes of the full
//! history) runs in one batch, then what needs a compaction.
//!
//! # Keys
//! A result's key is a digest of all it depends on ([`result_key`]). What has the same key runs once: probes of the full
//! history serve every compactor, one extraction serves every `+extractor`, and a second run of the same config finds
//! everything done.

mod collect;
mod error;
mod estimate;
mod experiment;
mod keys;
mod phases;
mod record;
mod run;
mod sink;
mod sources;
mod weights;
mod work;

pub use error::RunnerError;
pub use estimate::{Estimate, StageEstimate};
pub use experiment::Experiment;
pub use keys::{KeyBase, result_key};
pub use run::{RunObserver, RunReport, SilentObserver};
pub use sink::{
    Cell, NewResult, PlannedInstance, RecordedModel, RecordedPrompt, ResultSink, RunPlan, SinkError,
};

#[cfg(doc)]
use super::config::RunConfig;

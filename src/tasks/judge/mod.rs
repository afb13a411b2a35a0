//! The judge: does a compacted context still state a constraint?
//!
//! A model answers YES or NO ([`JudgeJob`]); beside it stands a check without a model ([`containment`]). How far a judge
//! can be trusted is measured against labels one floor up, with the other metrics.

mod containment;
mod job;
mod labels;

pub use containment::{Containment, containment};
pub use job::{JudgeJob, Verdict};
pub use labels::{LabelError, RetentionLabel, load_labels};

#[cfg(test)]
mod tests;

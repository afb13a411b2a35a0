//! The three jobs on a history, and the judge: an engine in, a typed result out.
//!
//! Each is a small state machine ([`Job`]) that asks for one request at a time; [`run_jobs`] drives many at once, so
//! that an engine always has a full batch. [`compact`] maps a history to a shorter one, [`extract`] collects the
//! user's session constraints turn by turn, [`probe`] puts an A/B question to a long context, and [`judge`] asks
//! whether a constraint survived. [`embed`] turns texts into vectors, and is no job: it needs no chat. Texts of prompts come in from above: nothing here knows the benchmark.
//!
//! A job never ends a run: what goes wrong with one prompt is a field of that job's output.

pub mod compact;
pub mod embed;
pub mod extract;
pub mod judge;
pub mod probe;

mod fork;
mod generation;
mod job;
mod options;
mod outcome;
mod runner;
mod text;

#[cfg(test)]
mod mock;
#[cfg(test)]
mod recovery_tests;

pub use fork::{BeforeAnswer, ForkedChoice, ReasoningMode};
pub use generation::{Generated, GenerationSettings, Usage, generate_request};
pub use job::{Job, JobStep, RequestRefusal, RequestResult, TaskContext};
pub use outcome::{Outcome, RequestFailure, UnscoredReason};
pub use runner::{Inference, RunEnd, RunError, RunOptions, run_jobs};
pub use text::count_tokens;

//! The engine: requests in, completions out, many at a time over one paged cache. Encoders need none of it:
//! [`TextEncoder`] is one with its tokenizer.
//!
//! ```no_run
//! use longwick::engine::{Engine, EngineOptions, GenerateParams};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::path::Path::new("SmolLM2-135M-Instruct.Q4_1.gguf");
//! let mut engine = Engine::load(path, EngineOptions::default(), &mut |_, _| {})?;
//! let history = engine.tokenizer()?.encode("A long history ...", longwick::tokenizer::SpecialTokens::AsText)?;
//!
//! // The history is prefilled once; each branch shares its blocks.
//! let session = engine.open_session(&history)?;
//! let branch = engine.fork_session(&session, history.len())?;
//! let question = engine.tokenizer()?.encode(" In short:", longwick::tokenizer::SpecialTokens::AsText)?;
//! engine.extend_session(&branch, &question)?;
//! let params = GenerateParams { max_tokens: 32, ..GenerateParams::default() };
//! println!("{:?}", engine.generate_on(&branch, params)?.output);
//! let scores = engine.score_on(&session, vec![vec![65], vec![66]])?;
//! println!("{scores:?}");
//! # Ok(())
//! # }
//! ```

mod admission;
mod batch;
mod encoder;
mod error;
mod generation;
mod host;
mod identity;
mod load;
mod memory;
mod options;
mod persist;
mod plan;
mod postprocess;
mod recent;
mod request;
mod run;
mod schedule;
mod sequence;
mod session;
mod spec;
mod stats;

pub use encoder::{EncoderIdentity, TextEncoder};
pub use error::EngineError;
pub use host::ModelHost;
pub use identity::ModelIdentity;
pub use load::Engine;
pub use memory::MemoryReport;
pub use options::EngineOptions;
pub use persist::KvDirectoryOptions;
pub use plan::{Fit, GroupPlan, MemoryPlan, PlanError, PlanRequest, StatePlan};
pub use request::{
    Completion, FinishReason, GenerateParams, GrammarStart, PositionLogprobs, Request, RequestKind,
    RequestOutput, SequenceId,
};
pub use session::Session;
pub use spec::ModelSpec;
pub use stats::EngineStats;

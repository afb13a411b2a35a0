//! From logits to text: the sampler, grammars, stop conditions and choice scores.
//!
//! Nothing here knows of the engine: a sampler maps one row of logits to one token, a [`GrammarState`] says which
//! tokens may come next, a [`StopChecker`] says when the text has ended, and [`ChoiceScores`] compares continuations.

mod choice;
mod error;
mod grammar;
mod sampler;
mod schema;
mod stop;

pub use choice::{ChoiceScore, ChoiceScores};
pub use error::DecodeError;
pub use grammar::{Grammar, GrammarFactory, GrammarState, Vocabulary};
pub use sampler::{SamplingParams, sample};
#[cfg(test)]
pub(crate) use schema::check_bounded;
pub use stop::{StopBuffer, StopChecker};

#[cfg(test)]
mod real_vocabulary_tests;

//! The A/B probe: which of two behaviours does a model hold right, given a context?
//!
//! [`GenerateProbe`] lets the model answer and reads the last line, as the published benchmark does; [`ChoiceProbe`]
//! compares the log-probabilities of the two letters, which needs no reading.

mod choice;
mod generate;

pub use choice::{ChoiceOutcome, ChoiceProbe};
pub use generate::{GenerateProbe, ProbeOutcome, read_letter};

use serde::{Deserialize, Serialize};

/// One of the two behaviours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Letter {
    /// The first.
    A,
    /// The second.
    B,
}

impl Letter {
    /// `A` or `B`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

impl std::fmt::Display for Letter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;

//! [`Condition`]: what the probing model sees before the probe.

use serde::{Deserialize, Serialize};

/// One of the four contexts in which a constraint's probe is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The whole history, with the constraint.
    FullWithSc,
    /// The whole history, without it.
    FullWithoutSc,
    /// The compacted history.
    Compaction,
    /// The compacted history, with the constraint stated just before the probe.
    UpperBound,
}

impl Condition {
    /// All four, in the order of conpact's columns.
    pub const ALL: [Self; 4] = [Self::FullWithSc, Self::FullWithoutSc, Self::Compaction, Self::UpperBound];

    /// The name that columns begin with.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FullWithSc => "full_with_sc",
            Self::FullWithoutSc => "full_without_sc",
            Self::Compaction => "compaction",
            Self::UpperBound => "upper_bound",
        }
    }

    /// Whether the context is what a compactor made; else it is the same for every compactor.
    pub fn depends_on_compactor(self) -> bool {
        matches!(self, Self::Compaction | Self::UpperBound)
    }

    /// The place in [`Condition::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl std::str::FromStr for Condition {
    type Err = UnknownCondition;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|condition| condition.as_str() == name)
            .ok_or_else(|| UnknownCondition { name: name.to_owned() })
    }
}

/// A name that is no condition.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no condition: full_with_sc, full_without_sc, compaction or upper_bound")]
pub struct UnknownCondition {
    /// What was given.
    pub name: String,
}

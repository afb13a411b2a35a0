//! [`Format`]: the supported file formats.
use std::{fmt, str::FromStr};

/// A supported format. JSON, JSONL and (for conpact's tables) Parquet are told apart by content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// longwick's own: JSONL, one [`super::Message`] a line, as [`super::write_history`] writes it.
    Longwick,
    /// OpenAI chat messages (Anthropic content blocks too): an array or lines of messages, or
    /// objects that hold them under `messages`, `traj` (tau-bench) or `history` (Who&When).
    Openai,
    /// ShareGPT: objects with `conversations`, a list of `{from, value}`.
    Sharegpt,
    /// Objects with `history`, a list of `{user, bot}` pairs (MT-Bench-101).
    Pairs,
    /// conpact's `Instance` rows; the history with the constraint (`messages`) is read.
    ConpactInstances,
    /// conpact's `haystacks` rows.
    ConpactHaystacks,
}

impl Format {
    /// All formats, in the order help texts list them.
    pub const ALL: [Format; 6] = [
        Format::Longwick,
        Format::Openai,
        Format::Sharegpt,
        Format::Pairs,
        Format::ConpactInstances,
        Format::ConpactHaystacks,
    ];

    /// The name `--format` takes.
    pub fn name(self) -> &'static str {
        match self {
            Format::Longwick => "longwick",
            Format::Openai => "openai",
            Format::Sharegpt => "sharegpt",
            Format::Pairs => "pairs",
            Format::ConpactInstances => "conpact-instances",
            Format::ConpactHaystacks => "conpact-haystacks",
        }
    }

    pub(super) fn list() -> String {
        Self::ALL.map(Format::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The text names no [`Format`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no format {0:?}; there are: {list}", list = Format::list())]
pub struct UnknownFormatName(pub String);

impl FromStr for Format {
    type Err = UnknownFormatName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| UnknownFormatName(name.to_owned()))
    }
}

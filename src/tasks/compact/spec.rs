//! [`CompactorSpec`]: a compactor's name, as configurations and result folders write it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// The budget of a bare `user-turns`: what OpenAI's Codex CLI keeps of the user's messages when it compacts.
const DEFAULT_TURN_TOKENS: usize = 20_000;

/// The count of a bare `mask-observations`: the window of Lindenbauer et al. 2025, "The Complexity Trap".
const DEFAULT_KEPT_OBSERVATIONS: usize = 10;

/// The budget of a bare `llmlingua2`: the setting of the Lost in Compaction paper.
const DEFAULT_LINGUA_TOKENS: usize = 500;

/// The suffix that adds the extracted constraints.
const EXTRACTOR_SUFFIX: &str = "+extractor";

/// A compactor and its settings. `FromStr`, `Display` and serde use one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CompactorSpec {
    /// Which compactor.
    pub kind: CompactorKind,
    /// Whether the extracted constraints follow its output as a last user message (`+extractor`).
    pub extractor: bool,
}

/// The compactors there are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CompactorKind {
    /// `recent-N`: exactly the last N messages.
    Recent {
        /// N.
        messages: NonZeroUsize,
    },
    /// `user-turns:BUDGET`: the user's messages, verbatim.
    UserTurns {
        /// How many tokens of them.
        budget: TurnBudget,
    },
    /// `mask-observations:K`: all messages, but a stub for each tool result older than the newest K.
    MaskObservations {
        /// K.
        keep: usize,
    },
    /// `llm:PROMPT`: a summary by a model.
    Llm {
        /// The prompt's name in the protocol.
        prompt: String,
    },
    /// `llmlingua2:N`: the words that an encoder would keep.
    LlmLingua2 {
        /// About how many tokens of them.
        tokens: usize,
    },
}

/// Which of the user's messages are kept, by tokens of their text. Messages are kept whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnBudget {
    /// `:N`: from the newest backwards, until one does not fit.
    Newest {
        /// N tokens.
        tokens: usize,
    },
    /// `:H+T`: from the oldest forwards within H, and from the newest backwards within T.
    HeadAndTail {
        /// H tokens.
        head: usize,
        /// T tokens.
        tail: usize,
    },
}

/// A name that is no compactor's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is no compactor: {problem}. There are recent-N, user-turns[:N or :HEAD+TAIL], mask-observations[:K], \
     llm:PROMPT, llmlingua2[:N], each with +extractor"
)]
pub struct CompactorSpecError {
    /// The name that came.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

impl CompactorSpec {
    /// Whether an encoder chooses the words.
    pub fn needs_encoder(&self) -> bool {
        matches!(self.kind, CompactorKind::LlmLingua2 { .. })
    }

    /// The name of the prompt, where a model writes the summary.
    pub fn prompt_name(&self) -> Option<&str> {
        match &self.kind {
            CompactorKind::Llm { prompt } => Some(prompt),
            _ => None,
        }
    }
}

impl FromStr for CompactorSpec {
    type Err = CompactorSpecError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (base, extractor) = match name.strip_suffix(EXTRACTOR_SUFFIX) {
            Some(base) => (base, true),
            None => (name, false),
        };
        let kind =
            parse_kind(base).map_err(|problem| CompactorSpecError { name: name.to_owned(), problem })?;
        Ok(Self { kind, extractor })
    }
}

fn parse_kind(base: &str) -> Result<CompactorKind, String> {
    if let Some(count) = base.strip_prefix("recent-") {
        let messages = NonZeroUsize::new(number(count)?).ok_or("recent-0 would keep nothing")?;
        return Ok(CompactorKind::Recent { messages });
    }
    let (family, argument) = match base.split_once(':') {
        Some((family, argument)) => (family, Some(argument)),
        None => (base, None),
    };
    match (family, argument) {
        ("user-turns", None) => {
            Ok(CompactorKind::UserTurns { budget: TurnBudget::Newest { tokens: DEFAULT_TURN_TOKENS } })
        }
        ("user-turns", Some(argument)) => Ok(CompactorKind::UserTurns { budget: parse_budget(argument)? }),
        ("mask-observations", None) => {
            Ok(CompactorKind::MaskObservations { keep: DEFAULT_KEPT_OBSERVATIONS })
        }
        ("mask-observations", Some(argument)) => {
            Ok(CompactorKind::MaskObservations { keep: number(argument)? })
        }
        ("llm", Some(prompt)) => {
            // The name becomes part of a folder's name, and `+` parts the suffix.
            let is_plain =
                |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
            if prompt.is_empty() || prompt.starts_with('.') || !prompt.chars().all(is_plain) {
                return Err(format!(
                    "{prompt:?} cannot name a prompt: letters, digits, '-', '_' and '.' only"
                ));
            }
            Ok(CompactorKind::Llm { prompt: prompt.to_owned() })
        }
        ("llmlingua2", argument) => {
            let tokens = argument.map_or(Ok(DEFAULT_LINGUA_TOKENS), number)?;
            match tokens {
                0 => Err("a budget of 0 tokens would keep nothing".to_owned()),
                tokens => Ok(CompactorKind::LlmLingua2 { tokens }),
            }
        }
        ("llm", None) => Err("llm needs a prompt's name, as in llm:continuity".to_owned()),
        _ => Err("it is not in the list".to_owned()),
    }
}

fn parse_budget(argument: &str) -> Result<TurnBudget, String> {
    let budget = match argument.split_once('+') {
        None => TurnBudget::Newest { tokens: number(argument)? },
        Some((head, tail)) => TurnBudget::HeadAndTail { head: number(head)?, tail: number(tail)? },
    };
    match budget {
        TurnBudget::Newest { tokens: 0 } | TurnBudget::HeadAndTail { head: 0, tail: 0 } => {
            Err("a budget of 0 tokens would keep nothing".to_owned())
        }
        _ => Ok(budget),
    }
}

fn number(text: &str) -> Result<usize, String> {
    // usize's own parser also takes a leading plus, which would make two spellings of one name.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is not a whole number"));
    }
    text.parse().map_err(|_| format!("{text} is too large"))
}

impl fmt::Display for CompactorSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            CompactorKind::Recent { messages } => write!(formatter, "recent-{messages}")?,
            CompactorKind::UserTurns { budget: TurnBudget::Newest { tokens } } => {
                write!(formatter, "user-turns:{tokens}")?
            }
            CompactorKind::UserTurns { budget: TurnBudget::HeadAndTail { head, tail } } => {
                write!(formatter, "user-turns:{head}+{tail}")?;
            }
            CompactorKind::MaskObservations { keep } => write!(formatter, "mask-observations:{keep}")?,
            CompactorKind::Llm { prompt } => write!(formatter, "llm:{prompt}")?,
            CompactorKind::LlmLingua2 { tokens } => write!(formatter, "llmlingua2:{tokens}")?,
        }
        formatter.write_str(if self.extractor { EXTRACTOR_SUFFIX } else { "" })
    }
}

impl TryFrom<String> for CompactorSpec {
    type Error = CompactorSpecError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<CompactorSpec> for String {
    fn from(spec: CompactorSpec) -> Self {
        spec.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "recent-5",
            "user-turns:800",
            "user-turns:400+400",
            "user-turns:0+400",
            "mask-observations:3",
            "mask-observations:0",
            "llm:anthropic",
            "llm:anthropic+extractor",
            "user-turns:400+400+extractor",
            "recent-12+extractor",
            "llmlingua2:500",
            "llmlingua2:200+extractor",
        ] {
            let spec: CompactorSpec = name.parse().unwrap();
            assert_eq!(spec.to_string(), name);
            assert_eq!(spec.extractor, name.ends_with("+extractor"));
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(json, format!("{name:?}"));
            assert_eq!(serde_json::from_str::<CompactorSpec>(&json).unwrap(), spec);
        }
    }

    #[test]
    fn bare_names_have_defaults_that_are_written_out() {
        assert_eq!("user-turns".parse::<CompactorSpec>().unwrap().to_string(), "user-turns:20000");
        assert_eq!("llmlingua2".parse::<CompactorSpec>().unwrap().to_string(), "llmlingua2:500");
        let masked: CompactorSpec = "mask-observations+extractor".parse().unwrap();
        assert_eq!(masked.to_string(), "mask-observations:10+extractor");
    }

    #[test]
    fn other_names_are_refused_and_the_error_lists_what_exists() {
        for name in [
            "",
            "recent",
            "recent-",
            "recent-0",
            "recent--1",
            "recent-+5",
            "recent-x",
            "user-turns:",
            "user-turns:0",
            "user-turns:0+0",
            "user-turns:1+",
            "user-turns:1+2+3",
            "mask-observations:-1",
            "llm",
            "llm:",
            "llm:a b",
            "llm:../a",
            "llm:.a",
            "llmlingua2:",
            "llmlingua2:0",
            "llmlingua2:1+1",
            "+extractor",
            "summary",
            "recent-5+extract",
            "recent-99999999999999999999999",
        ] {
            let error = name.parse::<CompactorSpec>().unwrap_err();
            assert_eq!(error.name, name);
            let text = error.to_string();
            for family in
                ["recent-N", "user-turns", "mask-observations", "llm:PROMPT", "llmlingua2", "+extractor"]
            {
                assert!(text.contains(family), "{text}");
            }
        }
        assert!(serde_json::from_str::<CompactorSpec>("\"nothing\"").is_err());
    }
}

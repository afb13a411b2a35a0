//! How a question to a model ended: scored, unscored, or failed.

use super::RequestRefusal;
use serde::{Deserialize, Serialize};

/// A request that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestFailure {
    /// The prompt and one more token do not fit into the context.
    #[error("a prompt of {needed} tokens does not fit a context of {limit} tokens with room for an answer")]
    ContextExceeded {
        /// Tokens of the prompt (and of the longest option, where options are scored).
        needed: usize,
        /// The limit.
        limit: usize,
    },
    /// The prompt could not be rendered or tokenised.
    #[error("the prompt cannot be made: {message}")]
    Prompt {
        /// The cause.
        message: String,
    },
    /// The engine refused or failed the request.
    #[error("the engine failed the request: {message}")]
    Engine {
        /// The cause.
        message: String,
    },
}

impl From<RequestRefusal> for RequestFailure {
    fn from(refusal: RequestRefusal) -> Self {
        match refusal {
            RequestRefusal::ContextExceeded { needed, limit } => Self::ContextExceeded { needed, limit },
            RequestRefusal::Refused(message) => Self::Engine { message },
        }
    }
}

/// Why an answer cannot be scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UnscoredReason {
    /// There is no answer.
    #[error("the answer is empty")]
    Empty,
    /// The answer is none of the options.
    #[error("the answer is none of the options: {answer:?}")]
    NotAnOption {
        /// What was read as the answer.
        answer: String,
    },
    /// The output was cut off before an answer.
    #[error("the output was cut off before the answer")]
    CutOff,
    /// The reasoning never ended.
    #[error("the reasoning was not finished")]
    UnfinishedReasoning,
}

/// How a question ended. Unscored and failed are counted apart: neither is a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome<T> {
    /// The model answered.
    Scored {
        /// Its answer.
        answer: T,
    },
    /// The model's output holds no answer.
    Unscored {
        /// Why.
        reason: UnscoredReason,
    },
    /// There is no output.
    Failed {
        /// Why.
        failure: RequestFailure,
    },
}

impl<T: Copy> Outcome<T> {
    /// The answer, where there is one.
    pub fn answer(&self) -> Option<T> {
        match self {
            Self::Scored { answer } => Some(*answer),
            _ => None,
        }
    }
}

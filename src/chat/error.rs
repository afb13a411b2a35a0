//! [`ChatError`]: what can go wrong in rendering.
use std::path::PathBuf;

/// What can go wrong in rendering.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// A template file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that should hold a template holds something else.
    #[error("{path} is damaged: {message}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The template is not valid Jinja.
    #[error("the chat template has an error in line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// A role of no known name. A template would write it into the prompt's markup, where it could spell the end of a
    /// turn.
    #[error(
        "message {index} has the role {role:?}; a prompt takes system, developer, user, assistant or tool"
    )]
    UnknownRole {
        /// The message, counted from 0.
        index: usize,
        /// Its role.
        role: String,
    },
    /// The template refused the conversation by `raise_exception`, in every adaptation tried.
    #[error("the chat template refuses message {index} ({role}): \"{refusal}\"")]
    Refused {
        /// The first message that cannot be there, counted from 0.
        index: usize,
        /// Its role.
        role: String,
        /// The template's own words.
        refusal: String,
    },
    /// The template left a message out, in every adaptation tried.
    #[error("the chat template drops the {what} of message {index} ({role})")]
    Dropped {
        /// The message, counted from 0.
        index: usize,
        /// Its role.
        role: String,
        /// What is missing: `content`, or a call by name.
        what: String,
    },
    /// The template failed while it ran.
    #[error("the chat template fails in line {line}: {message}")]
    Failed {
        /// The line, from 1; 0 where unknown.
        line: usize,
        /// What went wrong.
        message: String,
    },
    /// The template did more work than any real one needs.
    #[error("the chat template was stopped after {fuel} steps for {messages} messages")]
    OutOfFuel {
        /// The steps it was allowed.
        fuel: u64,
        /// The number of messages.
        messages: usize,
    },
    /// The date is not `YYYY-MM-DD`.
    #[error("the date is {date:?}, not a day written YYYY-MM-DD")]
    Date {
        /// The date.
        date: String,
    },
    /// gpt-oss knows no such effort.
    #[error("the reasoning effort is {effort:?}, which is none of low, medium, high")]
    ReasoningEffort {
        /// The effort.
        effort: String,
    },
    /// There is nothing to render.
    #[error("a conversation needs at least one message")]
    Empty,
    /// The rendered text could not be tokenised.
    #[error(transparent)]
    Tokenizer(#[from] crate::tokenizer::TokenizerError),
    /// The model file's metadata could not be read.
    #[error(transparent)]
    Weights(#[from] crate::weights::WeightsError),
}

//! [`RunnerError`].

use super::SinkError;
use crate::compint::{InstanceError, ProtocolError};
use crate::engine::EngineError;
use crate::history::ImportError;
use crate::tasks::RunError;
use crate::tasks::compact::lingua::LinguaError;
use crate::tasks::judge::LabelError;
use crate::tokenizer::TokenizerError;
use crate::weights::fetch::FetchError;

/// What ends a run. Nothing that one instance does is among it.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A protocol cannot be used.
    #[error(transparent)]
    Protocol(Box<ProtocolError>),
    /// The config asks for constraints that the protocol does not have.
    #[error("{file}: protocol.constraints: {protocol} has no constraint {id}; it has {known}")]
    UnknownConstraint {
        /// The config.
        file: String,
        /// The protocol.
        protocol: String,
        /// The constraint.
        id: u32,
        /// Those there are.
        known: String,
    },
    /// A haystack or history file cannot be read.
    #[error(transparent)]
    Import(Box<ImportError>),
    /// Instances cannot be built of a file.
    #[error("{file}")]
    Instances {
        /// The haystack or history file.
        file: String,
        /// Why.
        #[source]
        source: InstanceError,
    },
    /// A model is not on this machine, or its name is none.
    #[error("model {name}")]
    Model {
        /// Its name in the config.
        name: String,
        /// Why.
        #[source]
        source: Box<FetchError>,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(Box<EngineError>),
    /// The encoder of `llmlingua2` cannot be loaded.
    #[error(transparent)]
    Encoder(#[from] LinguaError),
    /// A batch of work failed as a whole.
    #[error(transparent)]
    Run(Box<RunError>),
    /// A text cannot be counted.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The judge's labels cannot be read.
    #[error(transparent)]
    Labels(#[from] LabelError),
    /// Results cannot be stored.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A stored result cannot be read, or a new one cannot be written.
    #[error("result {key} of kind {kind} is no JSON of its kind")]
    Payload {
        /// Its key.
        key: String,
        /// Its kind.
        kind: &'static str,
        /// What serde_json says.
        source: serde_json::Error,
    },
}

impl From<EngineError> for RunnerError {
    fn from(error: EngineError) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl From<RunError> for RunnerError {
    fn from(error: RunError) -> Self {
        Self::Run(Box::new(error))
    }
}

impl From<ImportError> for RunnerError {
    fn from(error: ImportError) -> Self {
        Self::Import(Box::new(error))
    }
}

impl From<ProtocolError> for RunnerError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(Box::new(error))
    }
}

//! [`EmbedError`].

use std::path::PathBuf;

use super::Pooling;
use crate::engine::EngineError;
use crate::weights::Quantization;

/// What ends an embedding.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The model cannot be loaded, or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file beside the model cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file beside the model is damaged, or asks for what there is not.
    #[error("{}: {problem}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// An encoder whose files do not say how it pools.
    #[error(
        "{} holds no 1_Pooling/config.json, so nothing says how its hidden states become one vector; choose with --pooling",
        path.display()
    )]
    NoPooling {
        /// The model.
        path: PathBuf,
    },
    /// A decoder pools the last token alone.
    #[error("pooling {pooling:?} needs an encoder; of a decoder the last token is pooled")]
    DecoderPooling {
        /// What was asked for.
        pooling: Pooling,
    },
    /// Quantisation was asked for, and the model is an encoder.
    #[error("{} is an encoder, and only decoders can be quantised to {format}", path.display())]
    QuantizedEncoder {
        /// The model.
        path: PathBuf,
        /// What was asked for.
        format: Quantization,
    },
    /// A limit of tokens that cannot be.
    #[error("a text of {found} tokens at most: must be {least} to {limit}, special tokens included")]
    MaxTokens {
        /// The limit that was asked for.
        found: usize,
        /// The special tokens and one more.
        least: usize,
        /// The model's context.
        limit: usize,
    },
    /// A text without a token.
    #[error("text {index} has no token to embed")]
    Empty {
        /// Its number, from 0.
        index: usize,
    },
    /// The caller could not take a result.
    #[error("an embedding cannot be written")]
    Output(#[from] std::io::Error),
}

//! [`LinguaError`].

use std::path::PathBuf;

use crate::engine::EngineError;

/// What LLMLingua-2 refuses, or what stops it.
#[derive(Debug, thiserror::Error)]
pub enum LinguaError {
    /// The encoder cannot be loaded, or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The encoder is no token classifier of two labels or more.
    #[error(
        "{}: llmlingua2 needs a token classifier with two labels (drop, keep), and this encoder has {}",
        path.display(),
        labels.map_or("no classifier".to_owned(), |labels| format!("{labels}"))
    )]
    NotAClassifier {
        /// The model.
        path: PathBuf,
        /// Its labels, where it has a classifier.
        labels: Option<usize>,
    },
    /// The encoder has no rows for the tokens that stand in for forced ones. The reference would draw random ones.
    #[error(
        "{}: llmlingua2 adds tokens up to id {last_id}, and the embedding has {rows} rows: the encoder was not trained \
         for LLMLingua-2",
        path.display()
    )]
    NoRows {
        /// The model.
        path: PathBuf,
        /// The last added token's id.
        last_id: u32,
        /// Rows of the embedding.
        rows: usize,
    },
    /// The encoder's vocabulary lacks a special token.
    #[error("{}: the vocabulary has no {token:?}", path.display())]
    NoToken {
        /// The model.
        path: PathBuf,
        /// The token.
        token: String,
    },
    /// The encoder reads fewer tokens than a window.
    #[error("{}: llmlingua2 reads windows of {window} tokens, and the encoder takes {limit}", path.display())]
    ShortContext {
        /// The model.
        path: PathBuf,
        /// Tokens of a window.
        window: usize,
        /// The encoder's limit.
        limit: usize,
    },
    /// A text cannot be counted.
    #[error("a text of {bytes} bytes cannot be counted in tokens")]
    Count {
        /// Its length.
        bytes: usize,
    },
}

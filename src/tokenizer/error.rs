//! [`TokenizerError`]: what can be wrong with a tokenizer's files.
use std::path::PathBuf;

/// What can be wrong with a tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is larger than any real tokenizer.
    #[error("{path} has {bytes} bytes; a tokenizer file may have at most {limit}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A folder holds no tokenizer.
    #[error("{folder} holds no tokenizer.json")]
    NoTokenizer {
        /// The folder.
        folder: PathBuf,
    },
    /// A file is not what its name says.
    #[error("{path} is damaged: {message}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        message: String,
    },
    /// A field that a tokenizer needs is not there.
    #[error("the vocabulary lacks the field {field}")]
    MissingField {
        /// The field.
        field: &'static str,
    },
    /// A list has not one entry a token.
    #[error("{field} has {found} entries for {expected} tokens")]
    LengthMismatch {
        /// The field.
        field: &'static str,
        /// The number of tokens.
        expected: usize,
        /// The number of entries.
        found: usize,
    },
    /// An id names no token.
    #[error("{field} names the token {id}, but the vocabulary has {vocab_size} tokens")]
    IdOutOfRange {
        /// The field.
        field: String,
        /// The id.
        id: i64,
        /// The size of the vocabulary, or the largest one allowed.
        vocab_size: usize,
    },
    /// The library failed on tokens to decode.
    #[error("tokens cannot be decoded: {message}")]
    Decode {
        /// What the library said.
        message: String,
    },
    /// `tokenizer.ggml.model` names a kind that longwick does not read.
    #[error(
        "tokenizer.ggml.model is {model:?}; longwick reads \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece BPE)"
    )]
    UnknownModel {
        /// The kind.
        model: String,
    },
    /// `tokenizer.ggml.pre` names a pre-tokeniser that longwick does not know.
    #[error("tokenizer.ggml.pre is {pre:?}, a pre-tokeniser longwick does not know; known are {known}")]
    UnknownPreTokenizer {
        /// The name.
        pre: String,
        /// The known names, for the message.
        known: String,
    },
    /// A merge is not two tokens parted by a space.
    #[error("tokenizer.ggml.merges[{index}] is {text:?}, not two tokens parted by a space")]
    DamagedMerge {
        /// The entry.
        index: usize,
        /// Its text.
        text: String,
    },
    /// The pieces of a vocabulary can be halved in more ways than any real one's.
    #[error("the merges of {pieces} pieces would take more than {limit} bytes")]
    TooManyMerges {
        /// The number of pieces.
        pieces: usize,
        /// The limit.
        limit: usize,
    },
    /// A vocabulary that cannot be made into a tokenizer.
    #[error("the vocabulary cannot be used: {message}")]
    Build {
        /// What the library said.
        message: String,
    },
    /// A text that could not be encoded.
    #[error("cannot encode a text of {bytes} bytes: {message}")]
    Encode {
        /// The text's length.
        bytes: usize,
        /// What the library said.
        message: String,
    },
    /// The model file's metadata could not be read.
    #[error(transparent)]
    Weights(#[from] crate::weights::WeightsError),
}

//! [`DecodeError`].

/// What can go wrong in decoding.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// A logit is not a number: the model's arithmetic failed.
    #[error("logit of token {token} at position {position} is not a number")]
    NotANumber {
        /// The token whose logit it is.
        token: u32,
        /// The absolute position of the token to be drawn.
        position: u64,
    },
    /// No token may be drawn: all are disallowed or have no probability.
    #[error(
        "no token can be drawn at position {position}: {allowed} of {vocabulary} tokens are allowed, none has a finite logit"
    )]
    NoCandidate {
        /// The absolute position of the token to be drawn.
        position: u64,
        /// Tokens the grammar allows (all, where there is none).
        allowed: usize,
        /// Length of the row of logits.
        vocabulary: usize,
    },
    /// A sampling parameter is outside its range.
    #[error("sampling parameter {field} is {value}, but must be {rule}")]
    Parameter {
        /// The field of [`SamplingParams`](super::SamplingParams).
        field: &'static str,
        /// The value that came.
        value: f32,
        /// The range.
        rule: &'static str,
    },
    /// A JSON schema lets the output grow without end.
    #[error("JSON schema at {path} is unbounded: {rule}")]
    UnboundedSchema {
        /// Where in the schema, as a JSON pointer (`#/properties/text`).
        path: String,
        /// What the schema lacks.
        rule: &'static str,
    },
    /// A `$ref` of a JSON schema cannot be followed.
    #[error("JSON schema at {path} refers to {reference:?}: {reason}")]
    SchemaReference {
        /// Where in the schema, as a JSON pointer.
        path: String,
        /// The reference as written.
        reference: String,
        /// Why it cannot be followed.
        reason: &'static str,
    },
    /// The grammar cannot be compiled.
    #[error("cannot compile the {kind} grammar: {message}")]
    GrammarCompile {
        /// `JSON schema`, `choice` or `regex`.
        kind: &'static str,
        /// What the compiler said.
        message: String,
    },
    /// A grammar failed part way through an output, or was given a token it does not allow.
    #[error("grammar failed after {tokens} tokens: {message}")]
    Grammar {
        /// Tokens taken before.
        tokens: usize,
        /// What the matcher said.
        message: String,
    },
    /// The tokenizer's vocabulary cannot be made into a trie.
    #[error("vocabulary of {vocabulary} tokens cannot be used for grammars: {message}")]
    Vocabulary {
        /// Number of tokens.
        vocabulary: usize,
        /// What is wrong, with the token and the limit.
        message: String,
    },
}

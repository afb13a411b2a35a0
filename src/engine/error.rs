//! [`EngineError`].

use super::SequenceId;
use crate::chat::ChatError;
use crate::decode::DecodeError;
use crate::kv::KvError;
use crate::model::ModelError;
use crate::ops::OpError;
use crate::tokenizer::TokenizerError;
use crate::weights::WeightsError;

/// What the engine refuses, or what stops it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The prompt and one more token do not fit the context: a failure of the request, not of the run.
    #[error("a prompt of {prompt} tokens does not fit a context of {limit} tokens with room for an answer")]
    ContextExceeded {
        /// Tokens of the prompt (and of the longest continuation).
        prompt: usize,
        /// The context length.
        limit: usize,
    },
    /// The request could never fit the pool, even alone.
    #[error(
        "a request of {tokens} tokens needs {needed} KV blocks, and the pool has {total}; enlarge it with --kv-memory, in a run's config by engine.kv_memory_mib"
    )]
    PoolTooSmall {
        /// Prompt and output tokens.
        tokens: usize,
        /// Blocks needed.
        needed: usize,
        /// Blocks there are.
        total: usize,
    },
    /// Open sessions hold the blocks, or the state slots, that the next request needs.
    #[error("open sessions hold the KV pool: {needed} {resource} needed, {available} of {total} available")]
    PoolHeldBySessions {
        /// What is short: `blocks` or `state slots`.
        resource: &'static str,
        /// How many are needed.
        needed: usize,
        /// How many are available.
        available: usize,
        /// How many there are.
        total: usize,
    },
    /// A file of cached keys and values could not be used.
    #[error(transparent)]
    KvFile(#[from] crate::kv::disk::KvFileError),
    /// The request is malformed.
    #[error("request refused: {0}")]
    InvalidRequest(String),
    /// A setting cannot work.
    #[error("setting {setting}: {reason}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// Why.
        reason: String,
    },
    /// The session was closed, or belongs to another engine.
    #[error("session {0:?} is not open in this engine")]
    UnknownSession(SequenceId),
    /// The model came without a tokenizer, so only token ids can be used.
    #[error("{path} has no tokenizer: {reason}")]
    NoTokenizer {
        /// The model's path.
        path: String,
        /// Why.
        reason: String,
    },
    /// A request failed by itself.
    #[error("request failed: {0}")]
    RequestFailed(String),
    /// Work is queued but nothing can run: a defect of the scheduler.
    #[error("the scheduler is stuck with {running} running and {waiting} waiting sequences")]
    Stuck {
        /// Running sequences.
        running: usize,
        /// Waiting sequences.
        waiting: usize,
    },
    /// From the files.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// From the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// From the cache.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// From an operation.
    #[error(transparent)]
    Op(#[from] OpError),
    /// From the tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// From the chat template.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// From the decoder.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// From the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

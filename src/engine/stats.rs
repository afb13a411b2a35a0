//! [`EngineStats`].

use crate::kv::disk::DirectoryUse;

/// Counters since the engine was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct EngineStats {
    /// Prompt tokens computed, recomputation after preemption included.
    pub prefilled_tokens: u64,
    /// Prompt tokens found in the cache, those brought from files included.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Sequences that lost their blocks and were computed again.
    pub preemptions: u64,
    /// Requests answered by an identical one.
    pub shared_requests: u64,
    /// Forward passes.
    pub steps: u64,
    /// What the folder of prefixes did.
    pub kv_directory: DirectoryUse,
}

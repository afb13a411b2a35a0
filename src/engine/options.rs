//! [`EngineOptions`].

use std::num::NonZeroUsize;

use super::{EngineError, KvDirectoryOptions};
use crate::ops::{DeviceChoice, KvDtype};
use crate::weights::Quantization;

/// How a model is run.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where the model runs.
    pub device: DeviceChoice,
    /// Worker threads; `None`: all cores.
    pub threads: Option<NonZeroUsize>,
    /// The format that float weights are quantised to at load; `None`: they stay as the files have them.
    pub quantization: Option<Quantization>,
    /// Element type of cached keys and values.
    pub kv_dtype: KvDtype,
    /// Bytes of the KV pool; `None`: what one context of the model needs, half of the free memory at most.
    pub kv_pool_bytes: Option<u64>,
    /// Bytes of the state slots of models with recurrent layers; `None`: what [`Self::max_sequences`] and some
    /// snapshots need, a quarter of the free memory at most.
    pub state_pool_bytes: Option<u64>,
    /// Tokens between snapshots of recurrent states, beside those before message ends and forks.
    pub snapshot_tokens: usize,
    /// Tokens a block, a multiple of 16.
    pub block_size: usize,
    /// Most tokens one step computes.
    pub max_batch_tokens: usize,
    /// Most sequences running at once.
    pub max_sequences: usize,
    /// Whether computed prefixes are kept for later requests.
    pub prefix_cache: bool,
    /// Where they are kept for later processes; only with [`Self::prefix_cache`].
    pub kv_directory: Option<KvDirectoryOptions>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            device: DeviceChoice::Cpu,
            threads: None,
            quantization: None,
            kv_dtype: KvDtype::F32,
            kv_pool_bytes: None,
            state_pool_bytes: None,
            snapshot_tokens: 2048,
            block_size: 16,
            max_batch_tokens: 512,
            max_sequences: 32,
            prefix_cache: true,
            kv_directory: None,
        }
    }
}

impl EngineOptions {
    /// Refuses settings that cannot work.
    ///
    /// # Errors
    /// [`EngineError::Setting`] naming the setting.
    pub fn check(&self) -> Result<(), EngineError> {
        for (setting, value) in [
            ("max_batch_tokens", self.max_batch_tokens),
            ("max_sequences", self.max_sequences),
            ("snapshot_tokens", self.snapshot_tokens),
        ] {
            if value == 0 {
                return Err(EngineError::Setting { setting, reason: "must be at least 1".to_owned() });
            }
        }
        Ok(())
    }
}

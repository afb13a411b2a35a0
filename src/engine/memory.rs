//! How large the KV pool is.

use super::{EngineError, EngineOptions};
use crate::kv::KvPlan;
use crate::model::WeightPlacement;
use crate::ops::available_memory;

/// What a loaded model holds in memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct MemoryReport {
    /// Weights in memory: packed matrices, and vectors in f32.
    pub weights: usize,
    /// Tables that stay in their mapped files; the system keeps of them the pages in use.
    pub mapped_weights: usize,
    /// Bytes of the KV pool; the system lends them as blocks are first used.
    pub kv_pool: usize,
    /// Blocks in the pool.
    pub kv_blocks: usize,
    /// Tokens a block.
    pub block_size: usize,
    /// KV bytes of a token within every window.
    pub kv_bytes_per_token: usize,
    /// KV bytes of a token once sliding layers have let go of it.
    pub kv_bytes_per_token_past_windows: usize,
    /// State slots for recurrent layers; the system lends their memory as they are first used.
    pub state_slots: usize,
    /// Bytes of a state slot; a sequence takes three at most, a snapshot one.
    pub state_slot_bytes: usize,
}

/// Snapshots that the state slots have room for by default, beside the sequences.
const DEFAULT_SNAPSHOTS: usize = 64;

impl MemoryReport {
    pub(super) fn new(weights: WeightPlacement, plan: &KvPlan, blocks: usize, state_slots: usize) -> Self {
        let (past_windows, all) = plan.bytes_per_token();
        Self {
            weights: weights.in_memory(),
            mapped_weights: weights.mapped,
            kv_pool: plan.page_bytes * blocks,
            kv_blocks: blocks,
            block_size: plan.block_size,
            kv_bytes_per_token: all,
            kv_bytes_per_token_past_windows: past_windows,
            state_slots,
            state_slot_bytes: plan.states.map_or(0, |states| states.slot_bytes()),
        }
    }
}

impl std::fmt::Display for MemoryReport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
        write!(
            formatter,
            "weights {:.0} MiB; KV pool {:.0} MiB, {} blocks of {} tokens, {} bytes a token",
            mib(self.weights),
            mib(self.kv_pool),
            self.kv_blocks,
            self.block_size,
            self.kv_bytes_per_token,
        )?;
        if self.kv_bytes_per_token_past_windows != self.kv_bytes_per_token {
            write!(formatter, " ({} past the windows)", self.kv_bytes_per_token_past_windows)?;
        }
        if self.mapped_weights > 0 {
            write!(formatter, "; tables of {:.0} MiB in their mapped files", mib(self.mapped_weights))?;
        }
        if self.state_slots > 0 {
            let (slots, slot) = (self.state_slots, mib(self.state_slot_bytes));
            write!(formatter, "; {slots} state slots of {slot:.1} MiB")?;
        }
        Ok(())
    }
}

/// Pages the pool gets: by setting, or what one whole context needs in every group, half of the free memory at most.
///
/// `device_memory`: free bytes of the device's own memory, where the pool lies there.
pub(super) fn num_blocks(
    plan: &KvPlan,
    options: &EngineOptions,
    context_length: usize,
    device_memory: Option<u64>,
) -> Result<usize, EngineError> {
    let bytes = match options.kv_pool_bytes {
        Some(bytes) => bytes,
        None => {
            // A step never holds more than the context, whatever it may.
            let context = context_length + options.max_batch_tokens.min(context_length);
            let blocks = context.div_ceil(plan.block_size) * plan.groups.len();
            let wanted = blocks as u64 * plan.page_bytes as u64;
            let available = device_memory.or_else(available_memory);
            available.map_or(wanted, |available| wanted.min(available / 2))
        }
    };
    let blocks = usize::try_from(bytes / plan.page_bytes as u64).unwrap_or(usize::MAX);
    let least = plan.blocks_held(plan.block_size, options.max_batch_tokens);
    if blocks < least {
        let reason = format!(
            "{bytes} bytes hold {blocks} blocks of {} bytes; a single sequence needs {least}",
            plan.page_bytes
        );
        return Err(EngineError::Setting { setting: "kv_pool_bytes", reason });
    }
    // Block ids are 32 bits wide.
    Ok(blocks.min(u32::MAX as usize))
}

/// State slots: by setting, or what the most sequences and some snapshots need, a quarter of the free memory at most; none
/// without recurrent layers.
pub(super) fn num_slots(plan: &KvPlan, options: &EngineOptions) -> Result<usize, EngineError> {
    let Some(layout) = plan.states else { return Ok(0) };
    let slot_bytes = layout.slot_bytes() as u64;
    let bytes = match options.state_pool_bytes {
        Some(bytes) => bytes,
        None => {
            let slots = plan.slots_held() as u64 * options.max_sequences as u64 + DEFAULT_SNAPSHOTS as u64;
            let wanted = slots.saturating_mul(slot_bytes);
            available_memory().map_or(wanted, |available| wanted.min(available / 4))
        }
    };
    let slots = usize::try_from(bytes / slot_bytes).unwrap_or(usize::MAX);
    let least = plan.slots_held();
    if slots < least {
        let reason = format!(
            "{bytes} bytes hold {slots} state slots of {slot_bytes} bytes; a single sequence needs {least}"
        );
        return Err(EngineError::Setting { setting: "state_pool_bytes", reason });
    }
    Ok(slots.min(u32::MAX as usize))
}

//! The paged key-value cache: groups of layers, reference-counted blocks, block tables and the prefix cache.
//!
//! One arena of uniform pages serves every group, so that memory moves freely between full and sliding layers.
//! A *block* is `block_size` tokens of one group; it lives in one *page* of the arena, and both share one number.
//!
//! Architecture invariant: a block that more than one owner references is never written; [`KvCache::prepare_append`]
//! copies it first. Architecture invariant: only complete blocks enter the [`PrefixCache`].
//!
//! Recurrent layers keep states in *slots* instead of blocks: see [`SequenceSlots`]. A prefix that they can use ends with a
//! *snapshot* of their states. Architecture invariant: a slot that more than one owner references, or that holds a snapshot,
//! is never written.

mod block_pool;
mod block_table;
mod cache;
pub mod disk;
mod groups;
mod prefix_cache;
mod slots;

#[cfg(test)]
mod slots_tests;
#[cfg(test)]
mod tests;

pub use block_pool::{BlockId, BlockPool};
pub use block_table::BlockTable;
pub use cache::{KvCache, KvUsage, SequenceCache};
pub use groups::{KvCacheGroup, KvPlan, LayerKv, LayerSlot};
pub use prefix_cache::{NodeId, PrefixCache, PrefixHit};
pub use slots::{SLOTS_PER_SEQUENCE, SequenceSlots};

/// What the cache refuses.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// No page is free and none can be evicted; a scheduling outcome, not a failure.
    #[error("out of KV blocks: {needed} needed, {available} free or evictable of {total}")]
    OutOfBlocks {
        /// Blocks asked for.
        needed: usize,
        /// Blocks free or evictable.
        available: usize,
        /// Blocks in the pool.
        total: usize,
    },
    /// No state slot is free and none can be evicted; a scheduling outcome, not a failure.
    #[error("out of state slots: {needed} needed, {available} free or evictable of {total}")]
    OutOfSlots {
        /// Slots asked for.
        needed: usize,
        /// Slots free or evictable.
        available: usize,
        /// Slots in the pool.
        total: usize,
    },
    /// A setting that cannot work.
    #[error("KV cache setting {setting}: {reason}")]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// Why it cannot work, with the numbers.
        reason: String,
    },
    /// A page operation failed.
    #[error(transparent)]
    Op(#[from] crate::ops::OpError),
}

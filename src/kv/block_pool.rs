//! [`BlockPool`]: who holds which page.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::NodeId;

/// A block, and the page of the arena it lives in.
pub type BlockId = u32;

/// In which order cached blocks go when memory is short: the smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionKey {
    /// Blocks that only a branch in mid-history could use go before all others.
    kept_for_branch: bool,
    last_use: u64,
    /// Of blocks used at the same time, the deepest goes first: the others are its prefix.
    depth: Reverse<u32>,
    block: BlockId,
}

/// Where in the prefix cache a block is listed.
#[derive(Debug, Clone, Copy)]
struct CacheEntry {
    node: NodeId,
    group: usize,
    depth: u32,
    kept_for_branch: bool,
    last_use: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct BlockState {
    references: u32,
    cached: Option<CacheEntry>,
}

/// Reference counts, the free list, and the cached blocks nobody references, in eviction order.
///
/// Every block is in exactly one of three states: free, referenced, or cached and evictable.
#[derive(Debug)]
pub struct BlockPool {
    states: Vec<BlockState>,
    free: Vec<BlockId>,
    evictable: BTreeSet<EvictionKey>,
    clock: u64,
}

impl BlockPool {
    /// A pool of `num_blocks` free blocks.
    pub fn new(num_blocks: usize) -> Self {
        let last = u32::try_from(num_blocks).unwrap_or(u32::MAX);
        Self {
            states: vec![BlockState::default(); last as usize],
            free: (0..last).rev().collect(),
            evictable: BTreeSet::new(),
            clock: 0,
        }
    }

    /// All blocks.
    pub fn total(&self) -> usize {
        self.states.len()
    }

    /// Blocks that hold nothing.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Cached blocks nobody references.
    pub fn evictable(&self) -> usize {
        self.evictable.len()
    }

    /// Blocks an allocation could get.
    pub fn available(&self) -> usize {
        self.free() + self.evictable()
    }

    /// Blocks somebody references.
    pub fn referenced(&self) -> usize {
        self.total() - self.available()
    }

    /// How many owners a block has.
    pub fn references(&self, block: BlockId) -> u32 {
        self.states[block as usize].references
    }

    /// Whether the prefix cache lists the block.
    pub fn is_cached(&self, block: BlockId) -> bool {
        self.states[block as usize].cached.is_some()
    }

    /// Takes a free block, or evicts the cheapest cached one; the second value says which cache entry that emptied.
    pub fn allocate(&mut self) -> Option<(BlockId, Option<(NodeId, usize)>)> {
        if let Some(block) = self.free.pop() {
            self.states[block as usize].references = 1;
            return Some((block, None));
        }
        let key = self.evictable.pop_first()?;
        let state = &mut self.states[key.block as usize];
        let entry = state.cached.take();
        state.references = 1;
        Some((key.block, entry.map(|entry| (entry.node, entry.group))))
    }

    /// Adds an owner; a cached block nobody referenced is safe from eviction from here on.
    pub fn retain(&mut self, block: BlockId) {
        if let Some(key) = self.eviction_key(block) {
            self.evictable.remove(&key);
        }
        self.states[block as usize].references += 1;
    }

    /// Removes an owner; the last one leaves the block free, or evictable where it is cached.
    pub fn release(&mut self, block: BlockId) {
        let state = &mut self.states[block as usize];
        debug_assert!(state.references > 0, "block {block} released without an owner");
        state.references -= 1;
        if state.references > 0 {
            return;
        }
        match &mut state.cached {
            None => self.free.push(block),
            Some(entry) => entry.last_use = self.clock,
        }
        if let Some(key) = self.eviction_key(block) {
            self.evictable.insert(key);
        }
    }

    /// Starts a new instant of use; blocks released in one instant are evicted deepest first.
    pub fn tick(&mut self) {
        self.clock += 1;
    }

    /// Lists a referenced block in the prefix cache.
    pub(super) fn set_cached(&mut self, block: BlockId, node: NodeId, group: usize, depth: u32) {
        let entry = CacheEntry { node, group, depth, kept_for_branch: true, last_use: self.clock };
        self.states[block as usize].cached = Some(entry);
    }

    /// Says whether a cached block is worth keeping for branches; see [`super::PrefixCache::mark_boundary`].
    pub(super) fn set_kept_for_branch(&mut self, block: BlockId, kept: bool) {
        let old = self.eviction_key(block);
        if let Some(entry) = &mut self.states[block as usize].cached {
            entry.kept_for_branch = kept;
        }
        if let Some(old) = old {
            self.evictable.remove(&old);
            if let Some(key) = self.eviction_key(block) {
                self.evictable.insert(key);
            }
        }
    }

    /// The key of a block that is cached and unreferenced.
    fn eviction_key(&self, block: BlockId) -> Option<EvictionKey> {
        let state = &self.states[block as usize];
        let entry = state.cached.filter(|_| state.references == 0)?;
        Some(EvictionKey {
            kept_for_branch: entry.kept_for_branch,
            last_use: entry.last_use,
            depth: Reverse(entry.depth),
            block,
        })
    }
}

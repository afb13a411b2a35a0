//! [`KvCache`]: arena, pool and prefix cache together, as the engine sees them.

use super::slots::StateStore;
use super::{BlockId, BlockPool, BlockTable, KvError, KvPlan, NodeId, PrefixCache, SequenceSlots};
use crate::ops::{Backend, KvArena, StateSlots};

/// The cache's share of one sequence. It must be given back with [`KvCache::free`].
#[derive(Debug, Default)]
pub struct SequenceCache {
    pub(super) tables: Vec<BlockTable>,
    pub(super) slots: SequenceSlots,
    pub(super) num_tokens: usize,
    pub(super) path: Vec<NodeId>,
}

impl SequenceCache {
    /// Tokens whose keys and values are in the cache.
    pub fn num_tokens(&self) -> usize {
        self.num_tokens
    }

    /// One table a group.
    pub fn tables(&self) -> &[BlockTable] {
        &self.tables
    }

    /// The state slots of its recurrent layers.
    pub fn slots(&self) -> &SequenceSlots {
        &self.slots
    }
}

/// Counters of a pool, in blocks or in state slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct KvUsage {
    /// All.
    pub total: usize,
    /// Held by some sequence.
    pub referenced: usize,
    /// Cached, and held by nobody.
    pub evictable: usize,
    /// Empty.
    pub free: usize,
}

impl KvUsage {
    fn of(pool: &BlockPool) -> Self {
        Self {
            total: pool.total(),
            referenced: pool.referenced(),
            evictable: pool.evictable(),
            free: pool.free(),
        }
    }
}

/// The paged KV cache of one model.
pub struct KvCache {
    pub(super) plan: KvPlan,
    pub(super) pool: BlockPool,
    pub(super) prefix: PrefixCache,
    pub(super) arena: KvArena,
    /// Where the plan has recurrent layers.
    pub(super) states: Option<StateStore>,
    keeps_prefixes: bool,
}

impl KvCache {
    /// Reserves `num_blocks` pages. A plan with recurrent layers needs [`Self::with_slots`] too.
    ///
    /// # Errors
    /// [`KvError::Op`] where the arena cannot be reserved.
    pub fn new(
        backend: &Backend,
        plan: KvPlan,
        num_blocks: usize,
        keeps_prefixes: bool,
    ) -> Result<Self, KvError> {
        let arena = KvArena::new(backend, plan.page_bytes, num_blocks)?;
        let prefix = PrefixCache::new(plan.groups.len(), plan.states.is_some(), plan.block_size);
        Ok(Self { plan, pool: BlockPool::new(num_blocks), prefix, arena, states: None, keeps_prefixes })
    }

    /// Reserves `num_slots` state slots, where the plan has recurrent layers; snapshots of states are made every
    /// `snapshot_tokens` tokens, and before each branch point.
    ///
    /// # Errors
    /// [`KvError::Setting`] for fewer slots than one sequence needs, [`KvError::Op`] where they cannot be reserved.
    pub fn with_slots(mut self, num_slots: usize, snapshot_tokens: usize) -> Result<Self, KvError> {
        let Some(layout) = self.plan.states else { return Ok(self) };
        if num_slots < self.plan.slots_held() {
            let reason = format!("{num_slots} slots; a single sequence needs {}", self.plan.slots_held());
            return Err(KvError::Setting { setting: "state slots", reason });
        }
        self.arena = self.arena.with_slots(layout.slot_bytes(), num_slots)?;
        let (place, unit) = (self.plan.groups.len(), self.plan.snapshot_unit());
        let interval = self.plan.snapshot_interval(snapshot_tokens);
        let store = StateStore::new(num_slots, place, self.plan.block_size, unit, interval);
        self.states = Some(store);
        Ok(self)
    }

    /// How layers are grouped.
    pub fn plan(&self) -> &KvPlan {
        &self.plan
    }

    /// The pages, for the model's forward pass.
    pub fn arena_mut(&mut self) -> (&KvPlan, &mut KvArena) {
        (&self.plan, &mut self.arena)
    }

    /// The pool's counters.
    pub fn usage(&self) -> KvUsage {
        KvUsage::of(&self.pool)
    }

    /// Counters of the state slots; all zero without recurrent layers.
    pub fn slot_usage(&self) -> KvUsage {
        let none = KvUsage { total: 0, referenced: 0, evictable: 0, free: 0 };
        self.states.as_ref().map_or(none, |states| KvUsage::of(&states.pool))
    }

    /// Blocks an allocation could get now.
    pub fn available(&self) -> usize {
        self.pool.available()
    }

    /// State slots an allocation could get now.
    pub fn available_slots(&self) -> usize {
        self.states.as_ref().map_or(0, |states| states.pool.available())
    }

    /// State slots that a sequence attached to the cached prefix of `tokens` takes out of the available ones, at most.
    pub fn slots_to_take(&self, tokens: &[u32]) -> usize {
        let snapshot = self.states.as_ref().and_then(|states| {
            let slot = states.snapshot(&self.lookup(tokens), &self.prefix)?;
            Some(states.pool.references(slot) > 0)
        });
        // A state that others hold too is not available, and stays so.
        self.plan.slots_held() - usize::from(snapshot.unwrap_or(false))
    }

    /// Tokens of `tokens` that [`Self::attach`] would find: a multiple of the block size, below `tokens.len()`.
    pub fn cached_tokens(&self, tokens: &[u32]) -> usize {
        self.lookup(tokens).len() * self.plan.block_size
    }

    /// Blocks that attaching to the cached prefix of `tokens` would share, and how many of them nobody references
    /// now, so that sharing them makes fewer evictable.
    pub fn blocks_in_prefix(&self, tokens: &[u32]) -> (usize, usize) {
        let nodes = self.lookup(tokens);
        let position = nodes.len() * self.plan.block_size;
        let (mut shared, mut unreferenced) = (0, 0);
        for (g, group) in self.plan.groups.iter().enumerate() {
            let first = group.first_visible_block(position).min(nodes.len());
            for block in nodes[first..].iter().filter_map(|&node| self.prefix.block(node, g)) {
                shared += 1;
                unreferenced += usize::from(self.pool.references(block) == 0);
            }
        }
        (shared, unreferenced)
    }

    fn lookup(&self, tokens: &[u32]) -> Vec<NodeId> {
        if !self.keeps_prefixes {
            return Vec::new();
        }
        // The last token is always computed: its logits are what the request is about.
        let max_blocks = tokens.len().saturating_sub(1) / self.plan.block_size;
        self.prefix.lookup(&self.plan.groups, tokens, max_blocks).nodes
    }

    /// A sequence that shares the longest usable cached prefix of `tokens`.
    pub fn attach(&mut self, tokens: &[u32]) -> SequenceCache {
        let path = self.lookup(tokens);
        let num_tokens = path.len() * self.plan.block_size;
        let mut tables = Vec::with_capacity(self.plan.groups.len());
        for (g, group) in self.plan.groups.iter().enumerate() {
            let first = group.first_visible_block(num_tokens).min(path.len());
            let mut table = BlockTable::starting_at(first);
            for &node in &path[first..] {
                if let Some(block) = self.prefix.block(node, g) {
                    self.pool.retain(block);
                    table.push(block);
                }
            }
            tables.push(table);
        }
        for &node in &path {
            self.prefix.add_user(node);
        }
        let slots = self.states.as_mut().map(|states| states.attach(&path, &self.prefix));
        SequenceCache { tables, slots: slots.unwrap_or_default(), num_tokens, path }
    }

    /// A second owner of all that `sequence` holds; blocks and state slots are shared until one of the two writes.
    pub fn fork(&mut self, sequence: &SequenceCache) -> SequenceCache {
        for &block in sequence.tables.iter().flat_map(BlockTable::blocks) {
            self.pool.retain(block);
        }
        for &node in &sequence.path {
            self.prefix.add_user(node);
        }
        let slots = self.states.as_mut().map(|states| states.fork(&sequence.slots));
        SequenceCache {
            tables: sequence.tables.clone(),
            slots: slots.unwrap_or_default(),
            num_tokens: sequence.num_tokens,
            path: sequence.path.clone(),
        }
    }

    /// Blocks that [`Self::prepare_append`] up to `end` tokens would allocate.
    pub fn blocks_to_append(&self, sequence: &SequenceCache, end: usize) -> usize {
        let needed_blocks = end.div_ceil(self.plan.block_size);
        let tables = sequence.tables.iter();
        tables
            .map(|table| {
                let new = needed_blocks.saturating_sub(table.end_block());
                new + usize::from(self.shared_tail(sequence, table).is_some())
            })
            .sum()
    }

    /// The index of the partly filled block the next token goes to, where it has other owners too.
    fn shared_tail(&self, sequence: &SequenceCache, table: &BlockTable) -> Option<usize> {
        let index = sequence.num_tokens / self.plan.block_size;
        let block = table.get(index)?;
        (self.pool.references(block) > 1).then_some(index)
    }

    /// Makes room for tokens up to `end`, copying a shared block or state slot before it is written.
    ///
    /// # Errors
    /// [`KvError::OutOfBlocks`] or [`KvError::OutOfSlots`], in which case nothing was changed.
    pub fn prepare_append(&mut self, sequence: &mut SequenceCache, end: usize) -> Result<(), KvError> {
        let needed = self.blocks_to_append(sequence, end);
        if needed > self.pool.available() {
            return Err(KvError::OutOfBlocks {
                needed,
                available: self.pool.available(),
                total: self.pool.total(),
            });
        }
        if let Some(states) = &mut self.states {
            let needed = states.needed(&sequence.slots, sequence.num_tokens, end);
            let (available, total) = (states.pool.available(), states.pool.total());
            if needed > available {
                return Err(KvError::OutOfSlots { needed, available, total });
            }
            let (slots, num_tokens) = (&mut sequence.slots, sequence.num_tokens);
            states.prepare(slots, num_tokens, end, &mut self.prefix, &mut self.arena)?;
        }
        let num_blocks = end.div_ceil(self.plan.block_size);
        let mut copies = Vec::new();
        for g in 0..sequence.tables.len() {
            if let Some(index) = self.shared_tail(sequence, &sequence.tables[g]) {
                let copy = self.allocate()?;
                if let Some(old) = sequence.tables[g].replace(index, copy) {
                    copies.push((old, copy));
                }
            }
            while sequence.tables[g].end_block() < num_blocks {
                let block = self.allocate()?;
                sequence.tables[g].push(block);
            }
        }
        self.arena.copy_pages(&copies)?;
        for (old, _) in copies {
            self.pool.release(old);
        }
        Ok(())
    }

    /// Asks the step up to `end`, for which [`Self::prepare_append`] made room, for snapshots of the states before
    /// `branch_points`. They take slots that are left over, and are dropped before a sequence would miss one.
    pub fn plan_snapshots(
        &mut self,
        sequence: &mut SequenceCache,
        end: usize,
        branch_points: impl Iterator<Item = usize>,
    ) {
        if let (Some(states), true) = (&mut self.states, self.keeps_prefixes) {
            let (slots, num_tokens) = (&mut sequence.slots, sequence.num_tokens);
            states.plan_snapshots(slots, num_tokens, end, branch_points, &mut self.prefix);
        }
    }

    /// The state slots that the step reads and writes; `None` without recurrent layers.
    pub fn state_slots(&self, sequence: &SequenceCache) -> Option<StateSlots> {
        self.states.as_ref()?.of_step(&sequence.slots)
    }

    /// A block with one owner: a free one, or the cheapest cached one that nobody references.
    pub(super) fn allocate(&mut self) -> Result<BlockId, KvError> {
        let total = self.pool.total();
        let (block, evicted) =
            self.pool.allocate().ok_or(KvError::OutOfBlocks { needed: 1, available: 0, total })?;
        if let Some((node, group)) = evicted {
            self.prefix.clear_block(node, group);
        }
        Ok(block)
    }

    /// Appends the slots (`block * block_size + offset`) of the tokens `start..end` in a group.
    pub fn slots(
        &self,
        sequence: &SequenceCache,
        group: usize,
        start: usize,
        end: usize,
        out: &mut Vec<u64>,
    ) {
        let block_size = self.plan.block_size;
        out.extend((start..end).filter_map(|position| {
            let block = sequence.tables[group].get(position / block_size)?;
            Some(u64::from(block) * block_size as u64 + (position % block_size) as u64)
        }));
    }

    /// Records that the keys, values and states of `tokens[..end]` are written: lists complete blocks and snapshots in the
    /// prefix cache, and lets go of blocks behind the window.
    pub fn commit(&mut self, sequence: &mut SequenceCache, tokens: &[u32], end: usize) {
        self.pool.tick();
        sequence.num_tokens = end;
        if self.keeps_prefixes {
            self.list_complete_blocks(sequence, tokens);
        }
        if let Some(states) = &mut self.states {
            states.pool.tick();
            states.commit(&mut sequence.slots, &sequence.path, &mut self.prefix);
        }
        for (group, table) in self.plan.groups.iter().zip(&mut sequence.tables) {
            for block in table.release_before(group.first_visible_block(end)) {
                self.pool.release(block);
            }
        }
    }

    fn list_complete_blocks(&mut self, sequence: &mut SequenceCache, tokens: &[u32]) {
        let block_size = self.plan.block_size;
        for index in sequence.path.len()..sequence.num_tokens / block_size {
            let key = &tokens[index * block_size..(index + 1) * block_size];
            let node = self.prefix.child(sequence.path.last().copied(), key);
            self.prefix.add_user(node);
            sequence.path.push(node);
            for (group, table) in sequence.tables.iter_mut().enumerate() {
                let Some(block) = table.get(index) else { continue };
                match self.prefix.block(node, group) {
                    None => {
                        self.prefix.set_block(node, group, block);
                        self.pool.set_cached(block, node, group, self.prefix.depth(node));
                        let kept =
                            self.plan.groups[group].window.is_none() || self.prefix.is_near_boundary(node);
                        self.pool.set_kept_for_branch(block, kept);
                    }
                    // Another sequence computed the same block first. Its bits are equal, so ours can go.
                    Some(listed) if listed != block => {
                        self.pool.retain(listed);
                        table.replace(index, listed);
                        self.pool.release(block);
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Says that branches may start after `tokens` tokens of the sequence (a message's end, a fork): the window
    /// blocks before that place are evicted after those that no branch will ask for, and a state that the sequence
    /// still holds there becomes a snapshot.
    pub fn mark_boundary(&mut self, sequence: &SequenceCache, tokens: usize) {
        if let Some(states) = &mut self.states {
            let SequenceCache { slots, num_tokens, path, .. } = sequence;
            states.list_state(slots, *num_tokens, tokens, path, &mut self.prefix);
        }
        let Some(index) = (tokens / self.plan.block_size).checked_sub(1) else { return };
        let Some(&node) = sequence.path.get(index) else { return };
        let windows = self.plan.groups.iter().filter_map(|group| group.window);
        let Some(window) = windows.max() else { return };
        let blocks = (window as usize).div_ceil(self.plan.block_size) + 1;
        for node in self.prefix.mark_boundary(node, blocks) {
            for group in 0..self.plan.groups.len() {
                if let Some(block) = self.prefix.block(node, group) {
                    self.pool.set_kept_for_branch(block, true);
                }
            }
        }
    }

    /// Gives back all that a sequence holds. Its complete blocks and its state stay cached until memory is short.
    pub fn free(&mut self, sequence: SequenceCache) {
        self.pool.tick();
        if let Some(states) = &mut self.states {
            states.pool.tick();
            let SequenceCache { slots, num_tokens, path, .. } = &sequence;
            states.list_state(slots, *num_tokens, *num_tokens, path, &mut self.prefix);
            states.free(sequence.slots);
        }
        for &block in sequence.tables.iter().flat_map(BlockTable::blocks) {
            self.pool.release(block);
        }
        for &node in sequence.path.iter().rev() {
            self.prefix.remove_user(node);
        }
    }
}

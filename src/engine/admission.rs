//! Which waiting sequence may begin.

use std::collections::HashSet;

use super::load::Engine;
use super::sequence::{Goal, SequenceState, SequenceStatus};
use super::{EngineError, SequenceId};
use crate::kv::BlockId;

/// Output tokens that admission makes room for. Longer outputs take what is free, and preempt younger sequences
/// when nothing is; reserving whole limits would leave most of the pool idle, since few outputs reach them.
pub(super) const MOST_RESERVED_OUTPUT: usize = 128;

/// What sessions may hold, in the words of [`EngineError::PoolHeldBySessions`].
const BLOCKS: &str = "blocks";
const STATE_SLOTS: &str = "state slots";

impl Engine {
    /// Moves waiting sequences that fit to the running ones, oldest first, and returns them.
    pub(super) fn admit(&mut self) -> Result<Vec<SequenceId>, EngineError> {
        let mut admitted = Vec::new();
        let mut place = 0;
        while self.running.len() < self.options.max_sequences && place < self.waiting.len() {
            let id = self.waiting[place];
            if self.waits_for_prefix(id) {
                place += 1;
                continue;
            }
            if !self.fits(id)? {
                break;
            }
            self.waiting.remove(place);
            self.start(id);
            admitted.push(id);
        }
        Ok(admitted)
    }

    /// Whether a running sequence is about to compute blocks this one could share.
    fn waits_for_prefix(&mut self, id: SequenceId) -> bool {
        if !self.options.prefix_cache {
            return false;
        }
        let block_size = self.cache.plan().block_size;
        let Some(sequence) = self.sequences.get_mut(&id) else { return false };
        let mut common = std::mem::take(&mut sequence.common_prefix);
        let sequence = &self.sequences[&id];
        let reusable = sequence.reusable_tokens();
        let shareable = reusable.len().saturating_sub(1) / block_size * block_size;
        let mut waits = false;
        let mut cached = None;
        let mut branch_points = Vec::new();
        for other in &self.running {
            let runner = &self.sequences[other];
            let shared = *common.entry(*other).or_insert_with(|| {
                let pairs = reusable.iter().zip(&runner.tokens[..runner.prompt_len]);
                pairs.take_while(|(a, b)| a == b).count()
            });
            let shared = shared.min(shareable) / block_size * block_size;
            if shared > runner.num_computed() {
                let cached = *cached.get_or_insert_with(|| self.cache.cached_tokens(reusable));
                if shared > cached {
                    waits = true;
                    branch_points.push((*other, shared));
                }
            }
        }
        for (other, shared) in branch_points {
            // This one will start where they part, and needs what the cache keeps for branches there.
            let Some(runner) = self.sequences.get_mut(&other) else { continue };
            if let Err(place) = runner.boundaries.binary_search(&shared) {
                runner.boundaries.insert(place, shared);
            }
        }
        common.retain(|other, _| self.sequences.contains_key(other));
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.common_prefix = common;
        }
        waits
    }

    /// Whether the pool can promise what the sequence will need, beside what it promised to the running ones.
    fn fits(&self, id: SequenceId) -> Result<bool, EngineError> {
        let sequence = &self.sequences[&id];
        let needed = self.blocks_to_reserve(id);
        let reusable = sequence.reusable_tokens();
        let (shared, unreferenced) = self.cache.blocks_in_prefix(reusable);
        let to_take = needed.saturating_sub(shared) + unreferenced;
        let promised: usize = self
            .running
            .iter()
            .map(|id| &self.sequences[id])
            .map(|running| running.reserved_blocks.saturating_sub(running.num_blocks()))
            .sum();
        let slots_held = self.cache.plan().slots_held();
        let slots_to_take = self.cache.slots_to_take(reusable);
        let slots_promised: usize =
            self.running.iter().map(|id| slots_held.saturating_sub(self.sequences[id].num_slots())).sum();
        let blocks = (to_take, promised, self.cache.available(), self.cache.usage().total);
        let slots =
            (slots_to_take, slots_promised, self.cache.available_slots(), self.cache.slot_usage().total);
        for (resource, (needed, promised, available, total)) in [(BLOCKS, blocks), (STATE_SLOTS, slots)] {
            if needed + promised <= available {
                continue;
            }
            if self.running.is_empty() {
                // Nothing will be given back by waiting. Submission made sure that the request fits an empty pool.
                return Err(EngineError::PoolHeldBySessions { resource, needed, available, total });
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// Refuses the growth of a session that already holds blocks to `length` tokens, where other sessions leave no
    /// room for it. Whatever else runs gives its blocks back in time; sessions keep theirs.
    pub(super) fn check_beside_sessions(&self, id: SequenceId, length: usize) -> Result<(), EngineError> {
        let sequence = &self.sequences[&id];
        if sequence.num_computed() == 0 {
            // Admission will see which blocks it can share.
            return Ok(());
        }
        let sessions: Vec<&SequenceState> = self
            .sequences
            .iter()
            .filter(|(other, state)| **other != id && matches!(state.goal, Goal::Hold))
            .map(|(_, state)| state)
            .collect();
        let others: HashSet<BlockId> = sessions
            .iter()
            .flat_map(|state| state.cache.tables())
            .flat_map(|table| table.blocks().iter().copied())
            .collect();
        let slots: HashSet<BlockId> = sessions.iter().flat_map(|state| state.cache.slots().held()).collect();
        let plan = self.cache.plan();
        let copies_tail = !sequence.num_computed().is_multiple_of(plan.block_size);
        let needed = plan.groups.iter().zip(sequence.cache.tables()).map(|(group, table)| {
            let own = table.blocks().iter().filter(|block| !others.contains(block)).count();
            let tail = table.blocks().last().filter(|block| copies_tail && others.contains(block));
            let new = length.div_ceil(plan.block_size) - table.end_block() + usize::from(tail.is_some());
            (own + new).min(group.blocks_held(length, self.options.max_batch_tokens))
        });
        let shares_state = sequence.cache.slots().state().is_some_and(|slot| slots.contains(&slot));
        let slots_needed = plan.slots_held() - usize::from(shares_state);
        let blocks = (needed.sum(), self.cache.usage().total, others.len());
        let slots = (slots_needed, self.cache.slot_usage().total, slots.len());
        for (resource, (needed, total, held)) in [(BLOCKS, blocks), (STATE_SLOTS, slots)] {
            let available = total - held;
            if needed > available {
                return Err(EngineError::PoolHeldBySessions { resource, needed, available, total });
            }
        }
        Ok(())
    }

    /// Blocks the sequence holds at most, up to the output that is reserved.
    pub(super) fn blocks_to_reserve(&self, id: SequenceId) -> usize {
        let tokens = self.sequences[&id].tokens_to_reserve(MOST_RESERVED_OUTPUT);
        self.cache.plan().blocks_held(tokens, self.options.max_batch_tokens)
    }

    fn start(&mut self, id: SequenceId) {
        let reserved = self.blocks_to_reserve(id);
        self.restore_prefix(id);
        let Some(sequence) = self.sequences.get_mut(&id) else { return };
        sequence.cache = self.cache.attach(sequence.reusable_tokens());
        sequence.status = SequenceStatus::Running;
        sequence.reserved_blocks = reserved;
        sequence.common_prefix.clear();
        if sequence.cached_tokens.is_none() {
            sequence.cached_tokens = Some(sequence.cache.num_tokens());
            self.stats.cached_tokens += sequence.cache.num_tokens() as u64;
        }
        self.running.push(id);
        self.running.sort_unstable();
    }
}

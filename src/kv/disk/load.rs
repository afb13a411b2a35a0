//! [`KvCache`]'s side of reading: where pages and states go.

use std::path::Path;

use super::chain::TokenChain;
use super::header::{PageRun, SavedState, StateRole};
use super::reader::Reader;
use super::{KvFileError, KvIdentity};
use crate::kv::{
    BlockId, BlockTable, KvCache, KvError, NodeId, SLOTS_PER_SEQUENCE, SequenceCache, SequenceSlots,
};

/// A prefix on its way into the cache. What it holds cannot be evicted; it must be given to [`KvCache::finish_load`].
pub(super) struct PrefixLoad {
    tokens: Vec<u32>,
    /// Of these tokens.
    chain: TokenChain,
    path: Vec<NodeId>,
    held: Vec<BlockId>,
    held_slots: Vec<BlockId>,
    /// Group and block of the partly filled last block.
    tail: Vec<(usize, BlockId)>,
    current: Option<BlockId>,
    pending: Option<BlockId>,
}

impl PrefixLoad {
    /// No tokens yet.
    pub fn new(identity: &KvIdentity) -> Self {
        Self {
            tokens: Vec::new(),
            chain: TokenChain::new(identity),
            path: Vec::new(),
            held: Vec::new(),
            held_slots: Vec::new(),
            tail: Vec::new(),
            current: None,
            pending: None,
        }
    }
}

/// What one file brought, before its checksum is known.
#[derive(Default)]
struct Arrived {
    /// Group, index, block.
    pages: Vec<(usize, usize, BlockId)>,
    states: Vec<(SavedState, BlockId)>,
}

impl KvCache {
    /// Reads a session file. Returns its tokens and a sequence that holds them, as it was when it was saved; what the file
    /// keeps for branches is in the prefix cache.
    ///
    /// # Errors
    /// [`KvFileError`]; the cache is then as it was before, but for cached blocks that nobody held.
    pub fn load_sequence(
        &mut self,
        file: &Path,
        identity: &KvIdentity,
    ) -> Result<(Vec<u32>, SequenceCache), KvFileError> {
        let reader = Reader::open(file, identity, &self.plan)?;
        if reader.header.first_block != 0 {
            return Err(KvFileError::format(
                file,
                "first_block",
                "0 in a session file",
                reader.header.first_block,
            ));
        }
        let mut load = PrefixLoad::new(identity);
        let outcome = self.load_file(&mut load, reader).and_then(|()| self.loaded_sequence(file, &load));
        let tokens = std::mem::take(&mut load.tokens);
        self.finish_load(load);
        Ok((tokens, outcome?))
    }

    /// Pages that the cache does not hold yet, of runs over the prefix `path`.
    pub(super) fn missing_pages(&self, path: &[NodeId], runs: &[PageRun]) -> usize {
        let missing = |run: &PageRun| {
            let listed = |index: usize| {
                path.get(index).is_some_and(|&node| self.prefix.block(node, run.group).is_some())
            };
            run.blocks().filter(|&index| !listed(index)).count()
        };
        runs.iter().map(missing).sum()
    }

    /// Adds what one file holds to a prefix. Its tokens must go on where the prefix ends.
    pub(super) fn load_file(&mut self, load: &mut PrefixLoad, mut reader: Reader) -> Result<(), KvFileError> {
        let file = reader.file().to_owned();
        let header = reader.header.clone();
        let before = load.chain.digest();
        if load.tokens.len() != header.first_block * self.plan.block_size || before != header.before {
            return Err(KvFileError::format(&file, "tokens before it", &header.before, before));
        }
        self.hold(load, &reader.tokens);
        let needed = self.missing_pages(&load.path, &header.pages);
        if needed > self.pool.available() {
            let (available, total) = (self.pool.available(), self.pool.total());
            return Err(KvFileError::cache(&file)(KvError::OutOfBlocks { needed, available, total }));
        }
        let mut arrived = Arrived::default();
        let outcome = self.read_pages(load, &mut reader, &mut arrived);
        let outcome = outcome.and_then(|()| self.read_states(load, &mut reader, &mut arrived));
        match outcome.and_then(|()| reader.finish()) {
            Ok(()) => {
                self.list_arrived(load, arrived);
                Ok(())
            }
            Err(error) => {
                // Nothing of it is listed, so that it is free again.
                arrived.pages.into_iter().for_each(|(_, _, block)| self.pool.release(block));
                if let Some(states) = &mut self.states {
                    arrived.states.into_iter().for_each(|(_, slot)| states.pool.release(slot));
                }
                Err(error)
            }
        }
    }

    /// Adds `tokens` to a prefix without reading a file, where the cache has all full groups' blocks of them. Returns whether
    /// it has.
    pub(super) fn hold_known(&mut self, load: &mut PrefixLoad, tokens: &[u32]) -> bool {
        let mut last = load.path.last().copied();
        for key in tokens.chunks_exact(self.plan.block_size) {
            let Some(node) = self.prefix.find_child(last, key) else { return false };
            let mut groups = self.plan.groups.iter().enumerate();
            if groups.any(|(g, group)| group.window.is_none() && self.prefix.block(node, g).is_none()) {
                return false;
            }
            last = Some(node);
        }
        self.hold(load, tokens);
        true
    }

    /// Makes the nodes of `tokens`, and keeps what they list from being evicted.
    fn hold(&mut self, load: &mut PrefixLoad, tokens: &[u32]) {
        let block_size = self.plan.block_size;
        load.tokens.extend_from_slice(tokens);
        load.chain.push(tokens);
        for index in load.path.len()..load.tokens.len() / block_size {
            let key = &load.tokens[index * block_size..(index + 1) * block_size];
            let node = self.prefix.child(load.path.last().copied(), key);
            self.prefix.add_user(node);
            load.path.push(node);
            for group in 0..self.plan.groups.len() {
                if let Some(block) = self.prefix.block(node, group) {
                    self.pool.retain(block);
                    load.held.push(block);
                }
            }
            if let Some(states) = &mut self.states
                && let Some(slot) = self.prefix.block(node, states.place())
            {
                states.pool.retain(slot);
                load.held_slots.push(slot);
            }
        }
    }

    fn read_pages(
        &mut self,
        load: &PrefixLoad,
        reader: &mut Reader,
        arrived: &mut Arrived,
    ) -> Result<(), KvFileError> {
        let file = reader.file().to_owned();
        let mut known = Vec::new();
        for run in reader.header.pages.clone() {
            let bytes = self.plan.groups[run.group].layout.page_bytes();
            for index in run.blocks() {
                let listed = load.path.get(index).and_then(|&node| self.prefix.block(node, run.group));
                known.resize(bytes, 0);
                reader.read(&mut known)?;
                if listed.is_some() {
                    // The cache has it, with equal bits; the checksum needs the file's.
                    continue;
                }
                let block = self.allocate().map_err(KvFileError::cache(&file))?;
                arrived.pages.push((run.group, index, block));
                self.arena.write_page(block, &known).map_err(KvFileError::cache(&file))?;
            }
        }
        Ok(())
    }

    fn read_states(
        &mut self,
        load: &PrefixLoad,
        reader: &mut Reader,
        arrived: &mut Arrived,
    ) -> Result<(), KvFileError> {
        let file = reader.file().to_owned();
        let mut known = Vec::new();
        for state in reader.header.states.clone() {
            let Some(states) = &mut self.states else { break };
            let node = (state.position / self.plan.block_size).checked_sub(1).and_then(|i| load.path.get(i));
            let is_listed = node.is_some_and(|&node| self.prefix.block(node, states.place()).is_some());
            let slot = match state.role {
                StateRole::Snapshot if is_listed => None,
                // Snapshots leave a sequence the slots that it cannot do without.
                StateRole::Snapshot if states.pool.available() <= SLOTS_PER_SEQUENCE => None,
                _ => Some(states.allocate(&mut self.prefix).map_err(KvFileError::cache(&file))?),
            };
            match slot {
                None => {
                    known.resize(self.arena.slot_bytes(), 0);
                    reader.read(&mut known)?;
                }
                Some(slot) => {
                    arrived.states.push((state, slot));
                    reader.read(self.arena.slot_mut(slot).map_err(KvFileError::cache(&file))?)?;
                }
            }
        }
        Ok(())
    }

    /// Lists what a file brought, now that its checksum is right.
    fn list_arrived(&mut self, load: &mut PrefixLoad, arrived: Arrived) {
        for (group, index, block) in arrived.pages {
            load.held.push(block);
            let Some(&node) = load.path.get(index) else {
                load.tail.push((group, block));
                continue;
            };
            if self.prefix.block(node, group).is_some() {
                // The file names it twice.
                continue;
            }
            if self.plan.groups[group].window.is_some() {
                self.prefix.mark_boundary(node, 1);
            }
            self.prefix.set_block(node, group, block);
            self.pool.set_cached(block, node, group, self.prefix.depth(node));
        }
        let Some(states) = &mut self.states else { return };
        for (state, slot) in arrived.states {
            load.held_slots.push(slot);
            match state.role {
                StateRole::Snapshot => states.list(slot, state.position, &load.path, &mut self.prefix),
                StateRole::Current => load.current = Some(slot),
                StateRole::Pending => load.pending = Some(slot),
            }
        }
    }

    /// The sequence that a session file describes, with references of its own.
    fn loaded_sequence(&mut self, file: &Path, load: &PrefixLoad) -> Result<SequenceCache, KvFileError> {
        let num_tokens = load.tokens.len();
        let mut tables = Vec::new();
        for (group, layers) in self.plan.groups.iter().enumerate() {
            let first = layers.first_visible_block(num_tokens).min(num_tokens.div_ceil(self.plan.block_size));
            let mut table = BlockTable::starting_at(first);
            for index in first..num_tokens.div_ceil(self.plan.block_size) {
                let tail = || load.tail.iter().find(|(of, _)| *of == group).map(|(_, block)| *block);
                let block = match load.path.get(index) {
                    Some(&node) => self.prefix.block(node, group),
                    None => tail(),
                };
                let Some(block) = block else {
                    let expected = format!("block {index} of group {group}");
                    return Err(KvFileError::format(file, "pages", expected, "none"));
                };
                table.push(block);
            }
            tables.push(table);
        }
        let slots = SequenceSlots::holding(load.current, load.pending);
        if let Some(states) = &self.states {
            states
                .check_loaded(&slots, num_tokens)
                .map_err(|expected| KvFileError::format(file, "states", expected, "none"))?;
        }
        tables.iter().flat_map(BlockTable::blocks).for_each(|&block| self.pool.retain(block));
        load.path.iter().for_each(|&node| self.prefix.add_user(node));
        if let Some(states) = &mut self.states {
            slots.held().for_each(|slot| states.pool.retain(slot));
        }
        Ok(SequenceCache { tables, slots, num_tokens, path: load.path.clone() })
    }

    /// Lets go of a prefix; what is listed of it stays cached until memory is short.
    pub(super) fn finish_load(&mut self, load: PrefixLoad) {
        self.pool.tick();
        load.held.into_iter().for_each(|block| self.pool.release(block));
        if let Some(states) = &mut self.states {
            states.pool.tick();
            load.held_slots.into_iter().for_each(|slot| states.pool.release(slot));
        }
        load.path.iter().rev().for_each(|&node| self.prefix.remove_user(node));
    }
}

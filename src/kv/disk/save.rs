//! [`KvCache`]'s side of writing: which pages and states a file gets.

use std::ops::Range;
use std::path::Path;

use super::chain::TokenChain;
use super::header::{Header, PageRun, SavedState, StateRole};
use super::writer::Writer;
use super::{KvFileError, KvIdentity};
use crate::kv::{BlockId, KvCache, NodeId, SequenceCache};

/// Blocks of a cached prefix.
pub(super) struct PrefixPart<'a> {
    /// The prefix's nodes, from the root on.
    pub path: &'a [NodeId],
    /// The prefix's tokens.
    pub tokens: &'a [u32],
    /// Which blocks.
    pub blocks: Range<usize>,
    /// Digest of the identity and of the tokens before them, hex.
    pub before: String,
}

/// Pages and states that go into one file.
#[derive(Default)]
pub(super) struct Selection {
    /// Group, index of the block in the sequence, and the block.
    pages: Vec<(usize, usize, BlockId)>,
    states: Vec<(SavedState, BlockId)>,
}

impl Selection {
    fn runs(&self) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = Vec::new();
        for &(group, index, _) in &self.pages {
            match runs.last_mut().filter(|run| run.group == group && run.blocks().end == index) {
                Some(run) => run.count += 1,
                None => runs.push(PageRun { group, first: index, count: 1 }),
            }
        }
        runs
    }
}

impl KvCache {
    /// Writes all that `sequence` needs to go on, and what the prefix cache keeps of it for branches: all blocks of full
    /// groups, the window before the end and before each kept boundary, the recurrent states with their snapshots.
    /// Returns the file's bytes.
    ///
    /// # Errors
    /// [`KvFileError::Io`]; a file that was there before is then as it was.
    pub fn save_sequence(
        &self,
        sequence: &SequenceCache,
        tokens: &[u32],
        identity: &KvIdentity,
        file: &Path,
    ) -> Result<u64, KvFileError> {
        let selection = self.select_sequence(sequence);
        let tokens = &tokens[..sequence.num_tokens];
        let header = header(identity, TokenChain::new(identity).digest(), 0, tokens.len(), &selection);
        self.write(file, &header, tokens, &selection, true)
    }

    fn select_sequence(&self, sequence: &SequenceCache) -> Selection {
        let mut selection = Selection::default();
        for (group, table) in sequence.tables.iter().enumerate() {
            let is_full = self.plan.groups[group].window.is_none();
            for index in 0..table.end_block() {
                let own = table.get(index);
                let kept = || {
                    let node = *sequence.path.get(index)?;
                    self.prefix.block(node, group).filter(|_| is_full || self.prefix.is_near_boundary(node))
                };
                selection.pages.extend(own.or_else(kept).map(|block| (group, index, block)));
            }
        }
        let Some(states) = &self.states else { return selection };
        for (index, &node) in sequence.path.iter().enumerate() {
            let position = (index + 1) * self.plan.block_size;
            let state = SavedState { position, role: StateRole::Snapshot };
            selection.states.extend(self.prefix.block(node, states.place()).map(|slot| (state, slot)));
        }
        let position = sequence.num_tokens;
        let current = sequence.slots.state().map(|slot| (StateRole::Current, slot));
        let pending = sequence.slots.pending().map(|slot| (StateRole::Pending, slot));
        for (role, slot) in current.into_iter().chain(pending) {
            selection.states.push((SavedState { position, role }, slot));
        }
        selection
    }

    /// The numbers of blocks after which a sequence that shares this one's cached prefix may start; ascending.
    pub(super) fn usable_lengths(&self, sequence: &SequenceCache) -> impl Iterator<Item = usize> {
        self.prefix.usable_lengths(&self.plan.groups, &sequence.path)
    }

    /// Writes the full groups' blocks of a part.
    pub(super) fn save_segment(
        &self,
        part: &PrefixPart<'_>,
        identity: &KvIdentity,
        file: &Path,
    ) -> Result<u64, KvFileError> {
        let mut selection = Selection::default();
        self.select_full(part, &mut selection);
        self.write_part(part, identity, file, &selection)
    }

    /// Writes what a sequence that starts at a part's end needs beside the full groups' blocks before the part.
    pub(super) fn save_boundary(
        &self,
        part: &PrefixPart<'_>,
        identity: &KvIdentity,
        file: &Path,
    ) -> Result<u64, KvFileError> {
        let mut selection = Selection::default();
        self.select_full(part, &mut selection);
        let end = part.blocks.end;
        let position = end * self.plan.block_size;
        for (group, layers) in self.plan.groups.iter().enumerate().filter(|(_, group)| group.window.is_some())
        {
            let window = layers.first_visible_block(position).min(end)..end;
            self.select(part.path, group, window, &mut selection);
        }
        if let (Some(states), Some(&last)) = (&self.states, part.path[..end].last()) {
            let state = SavedState { position, role: StateRole::Snapshot };
            selection.states.extend(self.prefix.block(last, states.place()).map(|slot| (state, slot)));
        }
        self.write_part(part, identity, file, &selection)
    }

    fn select_full(&self, part: &PrefixPart<'_>, selection: &mut Selection) {
        for (group, _) in self.plan.groups.iter().enumerate().filter(|(_, group)| group.window.is_none()) {
            self.select(part.path, group, part.blocks.clone(), selection);
        }
    }

    /// Adds a group's blocks, where the prefix cache lists them.
    fn select(&self, path: &[NodeId], group: usize, blocks: Range<usize>, selection: &mut Selection) {
        for (index, &node) in blocks.clone().zip(&path[blocks]) {
            selection.pages.extend(self.prefix.block(node, group).map(|block| (group, index, block)));
        }
    }

    fn write_part(
        &self,
        part: &PrefixPart<'_>,
        identity: &KvIdentity,
        file: &Path,
        selection: &Selection,
    ) -> Result<u64, KvFileError> {
        let block_size = self.plan.block_size;
        let (start, end) = (part.blocks.start * block_size, part.blocks.end * block_size);
        let header = header(identity, part.before.clone(), part.blocks.start, end, selection);
        self.write(file, &header, &part.tokens[start..end], selection, false)
    }

    fn write(
        &self,
        file: &Path,
        header: &Header,
        tokens: &[u32],
        selection: &Selection,
        durable: bool,
    ) -> Result<u64, KvFileError> {
        let mut writer = Writer::create(file, header, tokens)?;
        for &(group, _, block) in &selection.pages {
            let page = self.arena.page(block).map_err(KvFileError::cache(file))?;
            writer.write(&page[..self.plan.groups[group].layout.page_bytes()])?;
        }
        for &(_, slot) in &selection.states {
            writer.write(&self.arena.slot(slot).map_err(KvFileError::cache(file))?)?;
        }
        writer.finish(durable)
    }
}

fn header(
    identity: &KvIdentity,
    before: String,
    first_block: usize,
    num_tokens: usize,
    selection: &Selection,
) -> Header {
    Header {
        identity: identity.clone(),
        before,
        first_block,
        num_tokens,
        pages: selection.runs(),
        states: selection.states.iter().map(|(state, _)| state.clone()).collect(),
    }
}

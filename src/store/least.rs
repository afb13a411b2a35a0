//! [`LeastPrefill`]: the fewest prompt tokens that a run's recorded prompts need.
//!
//! Nothing here knows the engine: the number is made of recorded prompts alone, and compared with what the engine
//! counted.

use super::{RunStore, StoreError};
use rusqlite::params;
use std::collections::{BTreeMap, HashMap};

/// Counts, prompt by prompt.
///
/// With block size B, a prompt's complete blocks before its last token, `c = floor((len - 1) / B) * B` tokens, can be
/// shared with other prompts; the rest must be computed for each.
pub struct LeastPrefill {
    block_size: usize,
    /// A block after the blocks before it (0: none) has a number of its own.
    blocks: HashMap<(usize, Vec<u32>), usize>,
    tails: u64,
}

/// What the engine computed, and what it had to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefillCount {
    /// Prompt tokens that engines computed.
    pub prefilled: u64,
    /// The least.
    pub least: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Prompts.
    pub prompts: u64,
    /// How many prompts had their messages adapted to the model's template, by the names of the adaptations.
    pub adapted: BTreeMap<String, u64>,
}

impl LeastPrefill {
    /// Nothing counted yet; a block size of 0 counts as 1.
    pub fn new(block_size: usize) -> Self {
        Self { block_size: block_size.max(1), blocks: HashMap::new(), tails: 0 }
    }

    /// Counts a prompt of a request that ran.
    pub fn add(&mut self, prompt: &[u32]) {
        let complete = prompt.len().saturating_sub(1) / self.block_size * self.block_size;
        let mut before = 0;
        for block in prompt[..complete].chunks(self.block_size) {
            let next = self.blocks.len() + 1;
            before = *self.blocks.entry((before, block.to_vec())).or_insert(next);
        }
        self.tails += (prompt.len() - complete) as u64;
    }

    /// Tokens in distinct block prefixes, and every prompt's rest.
    pub fn tokens(&self) -> u64 {
        (self.blocks.len() * self.block_size) as u64 + self.tails
    }
}

impl RunStore {
    fn count_adapted(&self, load: i64, adapted: &mut BTreeMap<String, u64>) -> Result<(), StoreError> {
        let query = "SELECT adaptations, count(*) FROM prompts WHERE load = ?1 AND adaptations <> '' GROUP BY adaptations";
        let counted = self.connection.prepare_cached(query).and_then(|mut query| {
            for row in query.query_map([load], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))? {
                let (names, count) = row?;
                *adapted.entry(names).or_default() += u64::try_from(count).unwrap_or(0);
            }
            Ok(())
        });
        self.wrap(counted)
    }

    /// Prefilled tokens of the given loads, as engines counted them and as the recorded prompts need them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn prefill(&self, loads: impl IntoIterator<Item = i64>) -> Result<PrefillCount, StoreError> {
        let mut count = PrefillCount::default();
        for load in loads {
            let query = "SELECT block_size, prefilled FROM loads WHERE id = ?1";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?));
            let (block_size, prefilled) = self.wrap(self.connection.query_row(query, [load], read))?;
            let mut least = LeastPrefill::new(block_size as usize);
            self.for_each_prompt(load, &mut |prompt| {
                least.add(prompt);
                count.prompt_tokens += prompt.len() as u64;
                count.prompts += 1;
            })?;
            self.count_adapted(load, &mut count.adapted)?;
            count.prefilled += u64::try_from(prefilled).unwrap_or(0);
            count.least += least.tokens();
        }
        Ok(count)
    }

    fn for_each_prompt(&self, load: i64, visit: &mut dyn FnMut(&[u32])) -> Result<(), StoreError> {
        let query = "SELECT p.id, p.rest, p.base, p.shared, b.rest FROM prompts p LEFT JOIN prompts b \
                     ON b.id = p.base WHERE p.load = ?1 ORDER BY p.id";
        let mut query = self.wrap(self.connection.prepare(query))?;
        let mut rows = self.wrap(query.query(params![load]))?;
        while let Some(row) = self.wrap(rows.next())? {
            let (id, rest): (i64, Vec<u8>) = (self.wrap(row.get(0))?, self.wrap(row.get(1))?);
            let (base, shared): (Option<i64>, u32) = (self.wrap(row.get(2))?, self.wrap(row.get(3))?);
            let mut bytes: Vec<u8> = Vec::new();
            if base.is_some() {
                let whole: Option<Vec<u8>> = self.wrap(row.get(4))?;
                let wanted = shared as usize * 4;
                let found = whole.as_deref().and_then(|whole| whole.get(..wanted));
                let missing = || self.damaged(format!("prompt {id}"), "the prompt it adds to is not whole");
                bytes.extend_from_slice(found.ok_or_else(missing)?);
            }
            bytes.extend_from_slice(&rest);
            let tokens: Vec<u32> = bytes
                .chunks_exact(4)
                .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect();
            visit(&tokens);
        }
        Ok(())
    }
}

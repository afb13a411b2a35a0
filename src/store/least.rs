//! [`LeastPrefill`]: the fewest prompt tokens that a run's recorded prompts need.
//!
//! Nothing here knows the engine: the number is made of recorded prompts alone, and compared with what the engine
//! counted.

use super::{RunStore, StoreError};
use rusqlite::params;
use std::collections::{BTreeMap, HashMap, HashSet};

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

/// The prompts that one model was given.
struct ModelPrompts {
    least: LeastPrefill,
    requests: HashSet<Vec<u8>>,
}

/// What engines computed in all sessions of a run, and what they had to.
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
    /// Loads of models that computed any.
    pub loads: u64,
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
    /// Prefilled tokens of all sessions of the run, as engines counted them and as the recorded prompts need them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn prefill(&self) -> Result<PrefillCount, StoreError> {
        let mut count = PrefillCount { adapted: self.adapted()?, ..PrefillCount::default() };
        let mut models: BTreeMap<(String, u32), ModelPrompts> = BTreeMap::new();
        for (load, model, block_size, prefilled) in self.loads()? {
            count.loads += u64::from(prefilled > 0);
            count.prefilled += prefilled;
            let prompts = models.entry((model, block_size)).or_insert_with(|| ModelPrompts {
                least: LeastPrefill::new(block_size as usize),
                requests: HashSet::new(),
            });
            self.for_each_prompt(load, &mut |request, prompt| {
                // A request that two sessions computed is needed once.
                if prompts.requests.insert(request) {
                    prompts.least.add(prompt);
                    count.prompt_tokens += prompt.len() as u64;
                    count.prompts += 1;
                }
            })?;
        }
        count.least = models.values().map(|prompts| prompts.least.tokens()).sum();
        Ok(count)
    }

    /// Each load of a model: its id, the model, the block size, the tokens that its engine prefilled.
    fn loads(&self) -> Result<Vec<(i64, String, u32, u64)>, StoreError> {
        let query = "SELECT id, model, block_size, prefilled FROM loads ORDER BY id";
        let loads = self.connection.prepare_cached(query).and_then(|mut query| {
            let read = |row: &rusqlite::Row<'_>| {
                let prefilled = u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, prefilled))
            };
            query.query_map([], read)?.collect()
        });
        self.wrap(loads)
    }

    fn adapted(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let query = "SELECT p.adaptations, count(DISTINCT l.model || hex(p.request)) FROM prompts p \
                     JOIN loads l ON l.id = p.load WHERE p.adaptations <> '' GROUP BY p.adaptations";
        let counted = self.connection.prepare_cached(query).and_then(|mut query| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0)))
            };
            query.query_map([], read)?.collect()
        });
        self.wrap(counted)
    }

    fn for_each_prompt(&self, load: i64, visit: &mut dyn FnMut(Vec<u8>, &[u32])) -> Result<(), StoreError> {
        let query = "SELECT p.id, p.rest, p.base, p.shared, b.rest, p.request FROM prompts p LEFT JOIN prompts b \
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
            visit(self.wrap(row.get(5))?, &tokens);
        }
        Ok(())
    }
}

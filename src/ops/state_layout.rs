//! How recurrent layers' states lie in slots, and which slots a step reads and writes.
use super::{KvArena, OpError};
use std::collections::HashSet;

/// Tokens a chunk of the recurrence: states exist at absolute multiples of it.
pub const STATE_CHUNK: usize = 64;

/// Elements are laid out in runs of this many.
const RUN: usize = 16;

/// Shape of a Gated DeltaNet layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecurrentShape {
    /// Query and key heads.
    pub key_heads: usize,
    /// Value heads, a multiple of the key heads.
    pub value_heads: usize,
    /// Elements a query or key head.
    pub key_dim: usize,
    /// Elements a value head.
    pub value_dim: usize,
    /// Tokens the causal convolution sees, the current one included.
    pub conv_kernel: usize,
    /// Whether value head h reads key head `h % key_heads`; else it reads `h / (value_heads / key_heads)`.
    pub value_heads_in_turn: bool,
}

impl RecurrentShape {
    /// Channels of the convolution: queries, keys and values side by side.
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// The value heads that read a key head, ascending.
    pub fn value_heads_of(&self, key_head: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.value_heads / self.key_heads;
        let (first, step) =
            if self.value_heads_in_turn { (key_head, self.key_heads) } else { (key_head * count, 1) };
        (0..count).map(move |index| first + index * step)
    }

    /// Elements from one row of values to the next.
    pub(crate) fn value_stride(&self) -> usize {
        self.value_dim.next_multiple_of(RUN)
    }

    /// Elements of the inputs that the convolution still needs.
    pub(crate) fn tail(&self) -> usize {
        (self.conv_kernel - 1) * self.channels()
    }

    /// Elements of one layer's states: `[value_heads][key_dim][value_stride]`, then the tail `[conv_kernel - 1][channels]`.
    fn state(&self) -> usize {
        self.state_tail() + self.tail().next_multiple_of(RUN)
    }

    /// Elements of one layer's pending tokens: keys `[key_heads][key_dim][64]`, updates `[value_heads][64][value_stride]`,
    /// cumulative decays `[value_heads][2][64]`, then the tail as in a state.
    fn pending(&self) -> usize {
        self.pending_tail() + self.tail().next_multiple_of(RUN)
    }

    /// Where in a layer's states the state of a value head begins.
    pub(crate) fn head_state(&self, value_head: usize) -> usize {
        value_head * self.key_dim * self.value_stride()
    }

    /// Where in a layer's states the tail begins.
    pub(crate) fn state_tail(&self) -> usize {
        self.head_state(self.value_heads)
    }

    /// Where in a layer's pending tokens the keys of a key head begin.
    pub(crate) fn pending_keys(&self, key_head: usize) -> usize {
        key_head * self.key_dim * STATE_CHUNK
    }

    /// Where in a layer's pending tokens the updates of a value head begin.
    pub(crate) fn pending_updates(&self, value_head: usize) -> usize {
        self.pending_keys(self.key_heads) + value_head * STATE_CHUNK * self.value_stride()
    }

    /// Where in a layer's pending tokens the cumulative decays of a value head begin: 64 sums as f32, then what each lacks.
    pub(crate) fn pending_decays(&self, value_head: usize) -> usize {
        self.pending_updates(self.value_heads) + value_head * 2 * STATE_CHUNK
    }

    /// Where in a layer's pending tokens the tail begins.
    pub(crate) fn pending_tail(&self) -> usize {
        self.pending_decays(self.value_heads)
    }
}

/// Layout of slots, each of which holds all recurrent layers of one sequence: either their states at a multiple of 64
/// tokens, or what their pending tokens since then left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateLayout {
    /// One layer's shape; all are equal.
    pub shape: RecurrentShape,
    /// Recurrent layers.
    pub layers: usize,
}

impl StateLayout {
    /// Elements (f32) of one layer in a slot.
    pub(crate) fn layer_elements(&self) -> usize {
        self.shape.state().max(self.shape.pending())
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.layers * self.layer_elements() * size_of::<f32>()
    }

    /// Checks what the operations rely on.
    ///
    /// # Errors
    /// [`OpError::Value`] names the field, its value and the rule it breaks.
    pub fn validate(&self) -> Result<(), OpError> {
        let shape = &self.shape;
        for (argument, found, most) in [
            ("key_heads", shape.key_heads, 1 << 10),
            ("value_heads", shape.value_heads, 1 << 10),
            ("key_dim", shape.key_dim, 512),
            ("value_dim", shape.value_dim, 512),
            ("layers", self.layers, 1 << 12),
        ] {
            if found == 0 || found > most {
                return refuse(argument, format!("at least 1, at most {most}"), found);
            }
        }
        if shape.conv_kernel < 2 || shape.conv_kernel > 16 {
            return refuse("conv_kernel", "at least 2, at most 16", shape.conv_kernel);
        }
        if !shape.value_heads.is_multiple_of(shape.key_heads) {
            let expected = format!("a multiple of the {} key heads", shape.key_heads);
            return refuse("value_heads", expected, shape.value_heads);
        }
        Ok(())
    }
}

/// One sequence's slots in a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateSlots {
    /// Holds the states at the last multiple of 64 tokens at or before the step; `None` where that is 0.
    pub source: Option<u32>,
    /// Take the states at multiples of 64 within the step, as (position, slot), ascending. Where the step passes one, its
    /// last is among them; that slot may be `source`.
    pub targets: Vec<(u32, u32)>,
    /// Holds the pending tokens before and after the step; working memory meanwhile.
    pub pending: u32,
}

/// What both recurrent operations need beside their tensors.
pub struct RecurrentBatch<'a> {
    /// `[sequences + 1]`.
    pub cu_seqlens: &'a [u32],
    /// `[tokens]`: absolute, without gaps within a sequence.
    pub positions: &'a [u32],
    /// One a sequence.
    pub sequences: &'a [StateSlots],
    /// How slots are laid out.
    pub layout: &'a StateLayout,
    /// Which of the slots' layers.
    pub layer_in_slot: usize,
}

impl RecurrentBatch<'_> {
    /// Rows of a sequence, and its first position.
    pub(crate) fn rows(&self, sequence: usize) -> (std::ops::Range<usize>, usize) {
        let rows = self.cu_seqlens[sequence] as usize..self.cu_seqlens[sequence + 1] as usize;
        let first = self.positions.get(rows.start).map_or(0, |&position| position as usize);
        (rows, first)
    }

    /// Checks all numbers against `tokens` rows and the arena's slots.
    ///
    /// # Errors
    /// [`OpError::Shape`], [`OpError::Value`] and [`OpError::Index`] name the argument.
    pub(crate) fn check(&self, tokens: usize, arena: &KvArena) -> Result<(), OpError> {
        self.layout.validate()?;
        if self.layer_in_slot >= self.layout.layers {
            let expected = format!("below the {} layers of a slot", self.layout.layers);
            return refuse("layer_in_slot", expected, self.layer_in_slot);
        }
        if self.layout.slot_bytes() > arena.slot_bytes() {
            let expected = format!("at most the {} bytes of the arena's slots", arena.slot_bytes());
            return refuse("slot_bytes", expected, self.layout.slot_bytes());
        }
        let shape = |argument, expected: String, found| Err(OpError::Shape { argument, expected, found });
        if self.positions.len() != tokens {
            return shape("positions", format!("[{tokens}], one a token"), vec![self.positions.len()]);
        }
        if self.cu_seqlens.len() != self.sequences.len() + 1 {
            let expected = format!("[{}], one more than sequences", self.sequences.len() + 1);
            return shape("cu_seqlens", expected, vec![self.cu_seqlens.len()]);
        }
        let offsets = self.cu_seqlens;
        let covers =
            offsets.first() == Some(&0) && offsets.last().is_some_and(|&last| last as usize == tokens);
        if !covers || !offsets.is_sorted() {
            return refuse("cu_seqlens", format!("ascending from 0 to {tokens}"), format!("{offsets:?}"));
        }
        for sequence in 0..self.sequences.len() {
            self.check_sequence(sequence)?;
        }
        self.check_slots(arena.num_slots())
    }

    fn check_sequence(&self, sequence: usize) -> Result<(), OpError> {
        let (rows, first) = self.rows(sequence);
        let end = first + rows.len();
        let slots = &self.sequences[sequence];
        let mut positions = self.positions[rows].iter().zip(first..);
        if let Some((found, expected)) = positions.find(|(found, expected)| **found as usize != *expected) {
            return refuse("positions", format!("{expected} in sequence {sequence}, without gaps"), found);
        }
        if slots.source.is_some() != (first >= STATE_CHUNK) {
            let expected = format!("given exactly from position {STATE_CHUNK} on");
            return refuse("source", expected, format!("{:?} at position {first}", slots.source));
        }
        let (done, last) = (first / STATE_CHUNK * STATE_CHUNK, end / STATE_CHUNK * STATE_CHUNK);
        let positions = slots.targets.iter().map(|&(position, _)| position as usize);
        let fits = positions.clone().all(|p| p.is_multiple_of(STATE_CHUNK) && p > done && p <= last);
        let ascends = positions.clone().is_sorted_by(|a, b| a < b);
        let has_last =
            last == done || slots.targets.last().is_some_and(|&(position, _)| position as usize == last);
        if !(fits && ascends && has_last) {
            let expected = format!(
                "at ascending multiples of {STATE_CHUNK} above {done} up to {last}, the last included"
            );
            return refuse("targets", expected, format!("{:?}", slots.targets));
        }
        Ok(())
    }

    /// Every slot exists, and one that is written belongs to one sequence alone: threads work on sequences side by side.
    fn check_slots(&self, num_slots: usize) -> Result<(), OpError> {
        let mut written = HashSet::new();
        for (position, slots) in self.sequences.iter().enumerate() {
            let targets = slots.targets.iter().map(|&(_, slot)| slot);
            for slot in targets.clone().chain([slots.pending]) {
                if slot as usize >= num_slots {
                    return out_of_range(position, slot, num_slots);
                }
                if !written.insert(slot) {
                    return refuse("slots", "written once in a step", slot);
                }
            }
        }
        for (position, slots) in self.sequences.iter().enumerate() {
            let Some(source) = slots.source else { continue };
            if source as usize >= num_slots {
                return out_of_range(position, source, num_slots);
            }
            let is_own = slots.targets.last().is_some_and(|&(_, slot)| slot == source);
            if written.contains(&source) && !is_own {
                return refuse("source", "no slot that the step writes, but for its own last target", source);
            }
        }
        Ok(())
    }
}

fn out_of_range(position: usize, slot: u32, num_slots: usize) -> Result<(), OpError> {
    Err(OpError::Index { argument: "slots", position, index: u64::from(slot), limit: num_slots as u64 })
}

fn refuse(argument: &'static str, expected: impl Into<String>, found: impl ToString) -> Result<(), OpError> {
    Err(OpError::Value { argument, expected: expected.into(), found: found.to_string() })
}

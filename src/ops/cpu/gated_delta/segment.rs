//! [`Segment`]: consecutive tokens of one chunk, in one key head.
use super::{Rows, product::Product};
use crate::ops::{
    RecurrentShape,
    cpu::{
        simd::{Kernel, LANES, Lanes},
        state::LayerSlots,
        threads::SharedOutput,
    },
    state_layout::STATE_CHUNK,
};

/// Added to the squared length of queries and keys.
const LENGTH_EPS: f32 = 1e-6;

/// A thread's working memory, for one key head at a time.
pub(super) struct Scratch {
    /// `[64][key_dim]` each: queries and keys of the segment, normalised.
    queries: Vec<f32>,
    keys: Vec<f32>,
    /// `[64][64]` each: query and key of a row with the keys of the chunk.
    query_keys: Vec<f32>,
    key_keys: Vec<f32>,
    /// `[64][value_stride]` each: what queries and keys read from the chunk's first state.
    query_reads: Vec<f32>,
    key_reads: Vec<f32>,
    /// `[key_dim][64]`: keys decayed to the chunk's end.
    decayed_keys: Vec<f32>,
    /// `[64]` each: factors of a row's sums over updates.
    query_factors: Vec<f32>,
    key_factors: Vec<f32>,
    /// `[value_stride]`.
    output: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(shape: &RecurrentShape) -> Self {
        let zeros = |rows: usize, width: usize| vec![0.0; rows * width];
        let (key_dim, stride) = (shape.key_dim, shape.value_stride());
        Self {
            queries: zeros(STATE_CHUNK, key_dim),
            keys: zeros(STATE_CHUNK, key_dim),
            query_keys: zeros(STATE_CHUNK, STATE_CHUNK),
            key_keys: zeros(STATE_CHUNK, STATE_CHUNK),
            query_reads: zeros(STATE_CHUNK, stride),
            key_reads: zeros(STATE_CHUNK, stride),
            decayed_keys: zeros(key_dim, STATE_CHUNK),
            query_factors: zeros(1, STATE_CHUNK),
            key_factors: zeros(1, STATE_CHUNK),
            output: zeros(1, stride),
        }
    }
}

/// Tokens `done..done + count` of a chunk.
pub(super) struct Segment<'a> {
    pub(super) rows: &'a Rows<'a>,
    pub(super) shape: &'a RecurrentShape,
    pub(super) slots: &'a LayerSlots<'a>,
    pub(super) output: &'a SharedOutput<'a, f32>,
    pub(super) key_head: usize,
    pub(super) first_row: usize,
    pub(super) count: usize,
    /// Tokens of the chunk that came before.
    pub(super) done: usize,
    /// Slot of the chunk's keys, updates and decays.
    pub(super) pending: u32,
    /// Slot of the state at the chunk's beginning; `None` for zeros.
    pub(super) source: Option<u32>,
    /// Slot that takes the state at the chunk's end, where the segment reaches it.
    pub(super) target: Option<u32>,
}

impl<'a> Segment<'a> {
    pub(super) fn on(self, scratch: &'a mut Scratch) -> OnScratch<'a> {
        OnScratch { segment: self, scratch }
    }
}

/// A segment and the memory it works in.
pub(super) struct OnScratch<'a> {
    segment: Segment<'a>,
    scratch: &'a mut Scratch,
}

impl Kernel for OnScratch<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let (segment, scratch) = (self.segment, self.scratch);
        let shape = segment.shape;
        // SAFETY: this key head of this sequence is one thread's, and so are its places in the sequence's pending slot.
        let keys = unsafe {
            let len = shape.key_dim * STATE_CHUNK;
            segment.slots.slice_mut(segment.pending, shape.pending_keys(segment.key_head), len)
        };
        segment.normalise(l, scratch, keys);
        segment.multiply_keys(l, scratch, keys);
        for value_head in shape.value_heads_of(segment.key_head) {
            // SAFETY: as above; a value head belongs to one key head.
            let (decays, updates) = unsafe {
                let (decays, updates) = (shape.pending_decays(value_head), shape.pending_updates(value_head));
                let len = STATE_CHUNK * shape.value_stride();
                (
                    segment.slots.slice_mut(segment.pending, decays, 2 * STATE_CHUNK),
                    segment.slots.slice_mut(segment.pending, updates, len),
                )
            };
            segment.accumulate_decays(value_head, decays);
            segment.read_state(l, scratch, value_head);
            for index in 0..segment.count {
                segment.substitute(l, scratch, value_head, index, decays, updates);
            }
            segment.advance_state(l, scratch, value_head, keys, decays, updates);
        }
    }
}

impl Segment<'_> {
    /// Queries and keys of unit length (queries over the root of the head's size), the keys also as columns of the chunk.
    #[inline(always)]
    fn normalise<L: Lanes>(&self, l: L, scratch: &mut Scratch, columns: &mut [f32]) {
        let (shape, dim) = (self.shape, self.shape.key_dim);
        let scale = 1.0 / (dim as f32).sqrt();
        for index in 0..self.count {
            let row = &self.rows.qkv[(self.first_row + index) * shape.channels()..];
            let query = &row[self.key_head * dim..][..dim];
            let key = &row[(shape.key_heads + self.key_head) * dim..][..dim];
            let (inverse_query, inverse_key) = (inverse_length(l, query), inverse_length(l, key));
            let place = index * dim..(index + 1) * dim;
            for (to, &from) in scratch.queries[place.clone()].iter_mut().zip(query) {
                *to = from * inverse_query * scale;
            }
            for (d, (to, &from)) in scratch.keys[place].iter_mut().zip(key).enumerate() {
                *to = from * inverse_key;
                columns[d * STATE_CHUNK + self.done + index] = *to;
            }
        }
    }

    /// Products of each row's query and key with the keys of the chunk up to the segment's end. Columns past a row's own hold
    /// what lay there before, and are not read.
    #[inline(always)]
    fn multiply_keys<L: Lanes>(&self, l: L, scratch: &mut Scratch, columns: &[f32]) {
        let runs = (self.done + self.count).div_ceil(LANES);
        let dim = self.shape.key_dim;
        for (rows, out) in
            [(&scratch.queries, &mut scratch.query_keys), (&scratch.keys, &mut scratch.key_keys)]
        {
            out[..self.count * STATE_CHUNK].fill(0.0);
            let product = Product {
                a: rows.as_ptr(),
                a_stride: dim,
                rows: self.count,
                depth: dim,
                m: columns.as_ptr(),
                m_stride: STATE_CHUNK,
                runs,
                out: out.as_mut_ptr(),
                out_stride: STATE_CHUNK,
            };
            // SAFETY: scratch holds 64 rows of `dim` and of 64, and `columns` `dim` rows of 64; they are apart.
            unsafe { product.run(l) };
        }
    }

    /// Sums of the logs of the decays since the chunk's beginning: 64 as f32, then 64 times what the f32 lacks. Decays between
    /// two tokens are differences of sums, which would cancel otherwise.
    fn accumulate_decays(&self, value_head: usize, decays: &mut [f32]) {
        let heads = self.shape.value_heads;
        let rate = f64::from(self.rows.a_log[value_head]).exp();
        let bias = f64::from(self.rows.dt_bias[value_head]);
        for index in 0..self.count {
            let x = f64::from(self.rows.decay[(self.first_row + index) * heads + value_head]) + bias;
            // log(1 + e^x), which is x to the last place where x is large.
            let softplus = if x > 40.0 { x } else { x.exp().ln_1p() };
            let place = self.done + index;
            let before = match place {
                0 => 0.0,
                _ => f64::from(decays[place - 1]) + f64::from(decays[STATE_CHUNK + place - 1]),
            };
            let sum = before - rate * softplus;
            decays[place] = sum as f32;
            decays[STATE_CHUNK + place] = (sum - f64::from(sum as f32)) as f32;
        }
    }

    /// What queries and keys read from the state at the chunk's beginning, not yet decayed.
    #[inline(always)]
    fn read_state<L: Lanes>(&self, l: L, scratch: &mut Scratch, value_head: usize) {
        let (dim, stride) = (self.shape.key_dim, self.shape.value_stride());
        scratch.query_reads[..self.count * stride].fill(0.0);
        scratch.key_reads[..self.count * stride].fill(0.0);
        // A state of zeros adds nothing.
        let Some(source) = self.source else { return };
        // SAFETY: nobody writes this head's state before `advance_state`.
        let state = unsafe { self.slots.slice(source, self.shape.head_state(value_head), dim * stride) };
        for (rows, out) in
            [(&scratch.queries, &mut scratch.query_reads), (&scratch.keys, &mut scratch.key_reads)]
        {
            let product = Product {
                a: rows.as_ptr(),
                a_stride: dim,
                rows: self.count,
                depth: dim,
                m: state.as_ptr(),
                m_stride: stride,
                runs: stride / LANES,
                out: out.as_mut_ptr(),
                out_stride: stride,
            };
            // SAFETY: scratch holds 64 rows of `dim` and of `stride`, and the state `dim` rows of `stride`.
            unsafe { product.run(l) };
        }
    }

    /// One row: its update, by forward substitution, then its output.
    #[inline(always)]
    fn substitute<L: Lanes>(
        &self,
        l: L,
        scratch: &mut Scratch,
        value_head: usize,
        index: usize,
        decays: &[f32],
        updates: &mut [f32],
    ) {
        let (shape, stride) = (self.shape, self.shape.value_stride());
        let (row, place) = (self.first_row + index, self.done + index);
        self.decay_factors(l, scratch, index, decays);
        let decay = l.exp(l.splat(decays[place]));
        let beta = f64::from(self.rows.beta[row * shape.value_heads + value_head]);
        let beta = l.splat((1.0 / (1.0 + (-beta).exp())) as f32);
        let start =
            row * shape.channels() + 2 * shape.key_heads * shape.key_dim + value_head * shape.value_dim;
        let values = &self.rows.qkv[start..start + shape.value_dim];
        let reads = index * stride..(index + 1) * stride;
        let (earlier, own) = updates.split_at_mut(place * stride);
        let own = &mut own[..stride];
        let lines = values.chunks(LANES).zip(scratch.key_reads[reads.clone()].chunks_exact(LANES));
        for ((value, read), own) in lines.zip(own.chunks_exact_mut(LANES)) {
            let rest = l.neg_fma(decay, l.load_first(read, 0.0), l.load_first(value, 0.0));
            l.store_first(own, rest);
        }
        self.add_updates(l, &scratch.key_factors[..place], earlier, own);
        for own in own.chunks_exact_mut(LANES) {
            let update = l.mul(beta, l.load_first(own, 0.0));
            l.store_first(own, update);
        }
        for (read, out) in
            scratch.query_reads[reads].chunks_exact(LANES).zip(scratch.output.chunks_exact_mut(LANES))
        {
            l.store_first(out, l.mul(decay, l.load_first(read, 0.0)));
        }
        self.add_updates(l, &scratch.query_factors[..place + 1], updates, &mut scratch.output);
        let start = (row * shape.value_heads + value_head) * shape.value_dim;
        // SAFETY: this value head's part of this row is this thread's.
        let out = unsafe { self.output.slice(start..start + shape.value_dim) };
        out.copy_from_slice(&scratch.output[..shape.value_dim]);
    }

    /// `exp(c_i - c_j) (q_i.k_j)`, and minus `exp(c_i - c_j) (k_i.k_j)`, for the places j of the chunk up to i.
    #[inline(always)]
    fn decay_factors<L: Lanes>(&self, l: L, scratch: &mut Scratch, index: usize, decays: &[f32]) {
        let place = self.done + index;
        let products = index * STATE_CHUNK..(index + 1) * STATE_CHUNK;
        let query_keys = scratch.query_keys[products.clone()].chunks_exact(LANES);
        let key_keys = scratch.key_keys[products].chunks_exact(LANES);
        let factors =
            scratch.query_factors.chunks_exact_mut(LANES).zip(scratch.key_factors.chunks_exact_mut(LANES));
        let lines = query_keys.zip(key_keys).zip(factors).enumerate().take(place / LANES + 1);
        for (line, ((query_keys, key_keys), (query_factors, key_factors))) in lines {
            let decay = decay_until(l, decays, place, line);
            l.store_first(query_factors, l.mul(decay, l.load_first(query_keys, 0.0)));
            let negated = l.sub(l.splat(0.0), l.load_first(key_keys, 0.0));
            l.store_first(key_factors, l.mul(decay, negated));
        }
    }

    /// Adds `sum over j of factors[j] updates[j]` to `out`.
    #[inline(always)]
    fn add_updates<L: Lanes>(&self, l: L, factors: &[f32], updates: &[f32], out: &mut [f32]) {
        let stride = self.shape.value_stride();
        debug_assert!(updates.len() >= factors.len() * stride && out.len() == stride);
        let product = Product {
            a: factors.as_ptr(),
            a_stride: 0,
            rows: 1,
            depth: factors.len(),
            m: updates.as_ptr(),
            m_stride: stride,
            runs: stride / LANES,
            out: out.as_mut_ptr(),
            out_stride: stride,
        };
        // SAFETY: there are as many rows of updates as factors, and `out` is one row apart from them.
        unsafe { product.run(l) };
    }

    /// At the chunk's end: decays the state, and adds the updates under their keys.
    #[inline(always)]
    fn advance_state<L: Lanes>(
        &self,
        l: L,
        scratch: &mut Scratch,
        value_head: usize,
        keys: &[f32],
        decays: &[f32],
        updates: &[f32],
    ) {
        let Some(target) = self.target else { return };
        let (dim, stride) = (self.shape.key_dim, self.shape.value_stride());
        let decay = l.exp(l.splat(decays[STATE_CHUNK - 1]));
        let (place, len) = (self.shape.head_state(value_head), dim * stride);
        if let Some(source) = self.source.filter(|source| *source != target) {
            // SAFETY: the slots differ, the source is not written in this step, and this head's states are this thread's.
            unsafe {
                let from = self.slots.slice(source, place, len);
                self.slots.slice_mut(target, place, len).copy_from_slice(from);
            }
        }
        // SAFETY: as above; no other slice of the state lives.
        let state = unsafe { self.slots.slice_mut(target, place, len) };
        match self.source {
            None => state.fill(0.0),
            Some(_) => {
                for line in state.chunks_exact_mut(LANES) {
                    l.store_first(line, l.mul(decay, l.load_first(line, 0.0)));
                }
            }
        }
        for line in 0..STATE_CHUNK / LANES {
            let factor = decay_until(l, decays, STATE_CHUNK - 1, line);
            for d in 0..dim {
                let place = d * STATE_CHUNK + line * LANES;
                let key = l.load_first(&keys[place..place + LANES], 0.0);
                l.store_first(&mut scratch.decayed_keys[place..place + LANES], l.mul(key, factor));
            }
        }
        let product = Product {
            a: scratch.decayed_keys.as_ptr(),
            a_stride: STATE_CHUNK,
            rows: dim,
            depth: STATE_CHUNK,
            m: updates.as_ptr(),
            m_stride: stride,
            runs: stride / LANES,
            out: state.as_mut_ptr(),
            out_stride: stride,
        };
        // SAFETY: `dim` rows of 64, 64 rows of `stride`, `dim` rows of `stride`, apart from each other.
        unsafe { product.run(l) };
    }
}

/// `exp(c_i - c_j)` from sixteen places j to place i.
#[inline(always)]
fn decay_until<L: Lanes>(l: L, decays: &[f32], place: usize, line: usize) -> L::F {
    let from = line * LANES..(line + 1) * LANES;
    let (sums, rests) = decays.split_at(STATE_CHUNK);
    let sum = l.sub(l.splat(sums[place]), l.load_first(&sums[from.clone()], 0.0));
    let rest = l.sub(l.splat(rests[place]), l.load_first(&rests[from], 0.0));
    l.exp(l.add(sum, rest))
}

/// One over the length of a vector, its square raised by [`LENGTH_EPS`].
#[inline(always)]
fn inverse_length<L: Lanes>(l: L, x: &[f32]) -> f32 {
    let mut sum = l.splat(0.0);
    for x in x.chunks(LANES) {
        let x = l.load_first(x, 0.0);
        sum = l.fma(x, x, sum);
    }
    1.0 / (l.reduce_add(sum) + LENGTH_EPS).sqrt()
}

//! What the device kernels must move and compute at least, so that a measured time has a floor to be held against.
//!
//! A cost counts each input byte once and each output byte once, as if caches held whatever is read again within one launch,
//! and the multiply-adds of the mathematics, none for masked pairs. A launch cannot take less than either the memory or the
//! arithmetic units need for that.
//!
//! # Source
//! Williams, Waterman, Patterson 2009, "Roofline: an insightful visual performance model".

mod card;

#[cfg(test)]
mod tests;

pub use card::Card;

/// What a launch, or a number of them, must move and compute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Cost {
    /// Bytes between the card's memory and its cores.
    pub bytes: u64,
    /// Operations of the tensor cores; a multiply-add is two.
    pub tensor_flops: u64,
    /// Operations of the f32 units.
    pub vector_flops: u64,
    /// Exponentials, of the special function units.
    pub exponentials: u64,
}

/// What bounds a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Bytes.
    Memory,
    /// Tensor cores.
    Tensor,
    /// f32 units.
    Vector,
    /// Special function units.
    Exponential,
}

impl Bound {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tensor => "tensor",
            Self::Vector => "vector",
            Self::Exponential => "exponential",
        }
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            tensor_flops: self.tensor_flops + other.tensor_flops,
            vector_flops: self.vector_flops + other.vector_flops,
            exponentials: self.exponentials + other.exponentials,
        }
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), std::ops::Add::add)
    }
}

impl Cost {
    /// This cost `times` over.
    pub fn repeated(self, times: u64) -> Self {
        Self {
            bytes: self.bytes * times,
            tensor_flops: self.tensor_flops * times,
            vector_flops: self.vector_flops * times,
            exponentials: self.exponentials * times,
        }
    }

    /// The least seconds it takes, and what it then waits for.
    pub fn floor(self, card: &Card) -> (f64, Bound) {
        let candidates = [
            (self.bytes as f64 / card.bytes_per_second(), Bound::Memory),
            (self.tensor_flops as f64 / card.tensor_flops_per_second(), Bound::Tensor),
            (self.vector_flops as f64 / card.vector_flops_per_second(), Bound::Vector),
            (self.exponentials as f64 / card.exponentials_per_second(), Bound::Exponential),
        ];
        candidates.into_iter().fold((0.0, Bound::Memory), |a, b| if b.0 > a.0 { b } else { a })
    }
}

/// One layer's attention, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionWork {
    /// Query heads.
    pub q_heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements a head.
    pub head_dim: usize,
    /// Visible tokens, the querying one included; `None`: all.
    pub window: Option<usize>,
    /// Bytes an element of queries and outputs.
    pub activation_bytes: usize,
    /// Bytes an element of cached keys and values.
    pub cache_bytes: usize,
    /// Bytes beside the elements that each cached token and head has, for its scale.
    pub scale_bytes: usize,
}

impl AttentionWork {
    /// Keys that a query at `position` sees.
    fn visible(&self, position: usize) -> u64 {
        self.window.map_or(position + 1, |window| window.min(position + 1)) as u64
    }

    /// Query-key pairs of queries at `start..end`.
    fn pairs(&self, start: usize, end: usize) -> u64 {
        (start..end).map(|position| self.visible(position)).sum()
    }

    /// Bytes of keys and values of `tokens` tokens.
    fn cached(&self, tokens: u64) -> u64 {
        let a_head = 2 * (self.head_dim * self.cache_bytes + self.scale_bytes);
        tokens * (self.kv_heads * a_head) as u64
    }

    fn work(&self, queries: u64, keys: u64, pairs: u64) -> Cost {
        let row = (self.q_heads * self.head_dim) as u64;
        // Two products of a multiply-add an element; a pair's part in the maximum and the sum.
        let (heads, dim) = (self.q_heads as u64, self.head_dim as u64);
        Cost {
            bytes: self.cached(keys) + 2 * queries * row * self.activation_bytes as u64,
            tensor_flops: 4 * pairs * heads * dim,
            vector_flops: 2 * pairs * heads,
            exponentials: pairs * heads,
        }
    }

    /// `paged_prefill_attention` over the queries `start..end` of one sequence, in one launch.
    pub fn prefill_chunk(&self, start: usize, end: usize) -> Cost {
        let Some(queries) = end.checked_sub(start).filter(|&queries| queries > 0) else {
            return Cost::default();
        };
        // The first query sees the oldest key that any of them sees.
        let keys = self.visible(start) + queries as u64 - 1;
        self.work(queries as u64, keys, self.pairs(start, end))
    }

    /// A whole prompt in launches of `chunk` queries.
    pub fn prefill(&self, tokens: usize, chunk: usize) -> Cost {
        let chunk = chunk.max(1);
        (0..tokens).step_by(chunk).map(|start| self.prefill_chunk(start, (start + chunk).min(tokens))).sum()
    }

    /// `paged_decode_attention` of one new token for each of `branches` sequences of `context` tokens, which share their keys
    /// and values up to the new ones.
    pub fn decode(&self, context: usize, branches: usize) -> Cost {
        let Some(position) = context.checked_sub(1) else { return Cost::default() };
        let visible = self.visible(position);
        let branches = branches as u64;
        self.work(branches, visible - 1 + branches, visible * branches)
    }

    /// `kv_write` of `tokens` tokens.
    pub fn kv_write(&self, tokens: usize) -> Cost {
        let elements = 2 * (tokens * self.kv_heads * self.head_dim) as u64;
        let scales = if self.scale_bytes > 0 { elements } else { 0 };
        Cost {
            bytes: elements * self.activation_bytes as u64 + self.cached(tokens as u64),
            // A scale needs each element's magnitude.
            vector_flops: scales,
            ..Cost::default()
        }
    }

    /// `rope` over `rotary_dim` elements of each query and key head of `tokens` tokens, in place.
    pub fn rope(&self, tokens: usize, rotary_dim: usize) -> Cost {
        let elements = (tokens * (self.q_heads + self.kv_heads) * rotary_dim) as u64;
        Cost {
            bytes: 2 * elements * self.activation_bytes as u64,
            vector_flops: 3 * elements,
            ..Cost::default()
        }
    }
}

/// The product of `tokens` rows of `inputs` elements with a weight of `outputs` rows, on tensor cores; weights of two bytes an element.
pub fn linear(tokens: usize, inputs: usize, outputs: usize, activation_bytes: usize) -> Cost {
    let weights = (inputs * outputs) as u64;
    Cost {
        bytes: 2 * weights + (tokens * (inputs + outputs) * activation_bytes) as u64,
        tensor_flops: 2 * tokens as u64 * weights,
        ..Cost::default()
    }
}

/// `rms_norm` over `tokens` rows of `width` elements, the sum with the residual stream included: two inputs, two outputs.
pub fn rms_norm_with_residual(tokens: usize, width: usize, activation_bytes: usize) -> Cost {
    let elements = (tokens * width) as u64;
    Cost { bytes: 4 * elements * activation_bytes as u64, vector_flops: 5 * elements, ..Cost::default() }
}

/// `silu_mul` and its kind over `tokens` rows of `width` elements: two inputs, one output.
pub fn gated(tokens: usize, width: usize, activation_bytes: usize) -> Cost {
    let elements = (tokens * width) as u64;
    Cost {
        bytes: 3 * elements * activation_bytes as u64,
        vector_flops: 4 * elements,
        exponentials: elements,
        ..Cost::default()
    }
}

//! [`EncoderLayer`]: attention to the whole sequence, then a feed-forward block, each normalised after its residual.

use candle_core::Tensor;

use super::loader::{EncoderLoader, LayerNorm};
use crate::model::ModelError;
use crate::model::layers::Linear;
use crate::ops::{self, AttentionInput, Backend, KvArena, KvDtype, KvPageLayout, SequencePages};

/// Tokens a page. Sequences are short, and each has pages of its own.
const PAGE_TOKENS: usize = 64;

/// Where the sequences of one pass lie: in the packed rows, and in the pages of their keys and values, which every
/// layer writes anew.
pub(super) struct PackedSequences {
    arena: KvArena,
    layout: KvPageLayout,
    cu_seqlens: Vec<u32>,
    /// The last token's position for each row: every token sees the whole of its sequence.
    visible_to: Vec<u32>,
    slots: Vec<u64>,
    pages: Vec<Vec<u32>>,
}

impl PackedSequences {
    pub(super) fn new(
        backend: &Backend,
        lengths: impl Iterator<Item = usize>,
        num_heads: usize,
        head_dim: usize,
    ) -> Result<Self, ModelError> {
        let layout = KvPageLayout {
            block_size: PAGE_TOKENS,
            layers_per_page: 1,
            kv_heads: num_heads,
            head_dim,
            dtype: KvDtype::F32,
        };
        let (mut cu_seqlens, mut visible_to, mut slots) = (vec![0], Vec::new(), Vec::new());
        let mut pages: Vec<Vec<u32>> = Vec::new();
        let mut num_pages: u32 = 0;
        for length in lengths {
            let first = num_pages;
            num_pages += length.div_ceil(PAGE_TOKENS) as u32;
            pages.push((first..num_pages).collect());
            visible_to.extend(std::iter::repeat_n(length.saturating_sub(1) as u32, length));
            let start = u64::from(first) * PAGE_TOKENS as u64;
            slots.extend(start..start + length as u64);
            cu_seqlens.push(slots.len() as u32);
        }
        let arena = KvArena::new(backend, layout.page_bytes(), num_pages as usize)?;
        Ok(Self { arena, layout, cu_seqlens, visible_to, slots, pages })
    }

    fn attend(&mut self, backend: &Backend, [q, k, v]: [&Tensor; 3]) -> Result<Tensor, ModelError> {
        let shape = (self.slots.len(), self.layout.kv_heads, self.layout.head_dim);
        let (keys, values) = (k.reshape(shape)?, v.reshape(shape)?);
        ops::kv_write(backend, &mut self.arena, &self.layout, 0, &keys, &values, &self.slots)?;
        let sequences: Vec<SequencePages<'_>> =
            self.pages.iter().map(|pages| SequencePages { pages, first_position: 0 }).collect();
        let input = AttentionInput {
            q: &q.reshape(shape)?,
            cu_seqlens_q: &self.cu_seqlens,
            positions: &self.visible_to,
            sequences: &sequences,
            arena: &self.arena,
            layout: &self.layout,
            layer_in_page: 0,
            scale: 1.0 / (self.layout.head_dim as f32).sqrt(),
            window: None,
            sinks: None,
            soft_cap: None,
            prepared: None,
        };
        Ok(ops::paged_attention(backend, &input)?)
    }
}

pub(super) struct EncoderLayer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
}

impl EncoderLayer {
    pub(super) fn load(loader: &mut EncoderLoader<'_>, layer: usize) -> Result<Self, ModelError> {
        let (hidden, inner) = (loader.config.hidden_size, loader.config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        Ok(Self {
            query: loader.linear(&name("attention.self.query"), [hidden, hidden])?,
            key: loader.linear(&name("attention.self.key"), [hidden, hidden])?,
            value: loader.linear(&name("attention.self.value"), [hidden, hidden])?,
            attention_output: loader.linear(&name("attention.output.dense"), [hidden, hidden])?,
            attention_norm: loader.layer_norm(&name("attention.output.LayerNorm"))?,
            intermediate: loader.linear(&name("intermediate.dense"), [inner, hidden])?,
            output: loader.linear(&name("output.dense"), [hidden, inner])?,
            output_norm: loader.layer_norm(&name("output.LayerNorm"))?,
        })
    }

    /// `x: [tokens, hidden]` to the same shape.
    pub(super) fn forward(
        &self,
        backend: &Backend,
        x: &Tensor,
        sequences: &mut PackedSequences,
    ) -> Result<Tensor, ModelError> {
        let (q, k) = (self.query.forward(backend, x)?, self.key.forward(backend, x)?);
        let v = self.value.forward(backend, x)?;
        let attended = sequences.attend(backend, [&q, &k, &v])?;
        let attended = self.attention_output.forward(backend, &attended)?;
        let x = self.attention_norm.forward(backend, &ops::add(backend, x, &attended)?)?;
        let inner = ops::gelu(backend, &self.intermediate.forward(backend, &x)?)?;
        let inner = self.output.forward(backend, &inner)?;
        self.output_norm.forward(backend, &ops::add(backend, &x, &inner)?)
    }

    pub(super) fn packed_bytes(&self) -> usize {
        let matrices =
            [&self.query, &self.key, &self.value, &self.attention_output, &self.intermediate, &self.output];
        matrices.iter().map(|matrix| matrix.packed_bytes()).sum()
    }
}

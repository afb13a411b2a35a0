//! Causal attention over paged keys and values.
use super::{Backend, KvArena, KvPageLayout, OpError, StepAttention, kv_arena::check_layer};
use crate::ops::{cpu, tensors::F32View, tensors::from_elements};
use candle_core::Tensor;

/// One sequence's pages in one group.
#[derive(Debug, Clone)]
pub struct SequencePages<'a> {
    /// Page of each block, in order.
    pub pages: &'a [u32],
    /// Absolute position of the first block's first token (a multiple of the block size; above 0 once a window released blocks).
    pub first_position: u32,
}

/// What paged attention needs beside the queries.
pub struct AttentionInput<'a> {
    /// `[rows, q_heads, dim]`, packed by `cu_seqlens_q`.
    pub q: &'a Tensor,
    /// `[sequences + 1]` row offsets.
    pub cu_seqlens_q: &'a [u32],
    /// Absolute position of each row, ascending within a sequence. A row sees keys at positions <= its own.
    pub positions: &'a [u32],
    /// One a sequence.
    pub sequences: &'a [SequencePages<'a>],
    /// The pages.
    pub arena: &'a KvArena,
    /// Their layout.
    pub layout: &'a KvPageLayout,
    /// Which of the page's layers.
    pub layer_in_page: usize,
    /// Multiplies q.k.
    pub scale: f32,
    /// A row at position p sees keys at positions > p - window; `None` means all.
    pub window: Option<u32>,
    /// Attention sinks, one a query head.
    pub sinks: Option<&'a [f32]>,
    /// cap * tanh(score / cap).
    pub soft_cap: Option<f32>,
    /// Where a device finds the plan that was made of the same rows and sequences; `None`: it plans this call by itself.
    pub prepared: Option<StepAttention<'a>>,
}

/// Causal paged attention: `[rows, q_heads * dim]`. Query head h attends to kv head `h / (q_heads / kv_heads)`.
///
/// # Arithmetic
/// The same for prefill and decode, so that a row's bits depend on its query, its position and its visible keys and values alone:
/// 1. keys are taken in spans of 256 at absolute positions: span s is positions 256 s to 256 s + 255;
/// 2. a score is `scale * (q.k)`, the product summed by fused multiply-add over ascending dimensions from 0; then the soft cap;
/// 3. in a span: m is the greatest visible score, p = exp(score - m), l the sum of p in sixteen lanes (position modulo 16,
///    ascending; then the lanes pairwise, i with i + 8, + 4, + 2, + 1), o the sum of p v by fused multiply-add over ascending keys from 0;
/// 4. spans are merged in ascending order into (m, l, o), from (-inf, 0, 0): with M the greater m, a = exp(m - M) and
///    b = exp(m_span - M), l becomes fma(l, a, l_span b) and each o becomes fma(o, a, o_span b);
/// 5. a sink is merged last, into m and l as a span whose m is the sink, l is 1 and o is 0; the result is o / l.
///
/// Keys and values that have scales come in as their elements: q.k is multiplied by the key's scale, and in o (not in l) each p by the
/// value's. A device multiplies them before, as `PagedAttention` of the kernels says.
///
/// A masked key, and a span without visible keys, takes no part in any of this: whatever lies in the cache there does not matter.
///
/// # Errors
/// [`OpError::Shape`], [`OpError::Value`] and [`OpError::Index`] name the argument that does not fit; among them a row whose window
/// reaches before the sequence's first page, or whose position lies past its last.
///
/// # Source
/// Dao 2023, FlashAttention-2; spans as in flash decoding (Dao, Haziza, Massa, Sizov 2023), of fixed size for batch invariance; sinks
/// as in the gpt-oss model card.
pub fn paged_attention(backend: &Backend, input: &AttentionInput<'_>) -> Result<Tensor, OpError> {
    let (rows, q_heads, dim) = check_shapes(input)?;
    check_layer(input.arena, input.layout, input.layer_in_page)?;
    check_numbers(input)?;
    #[cfg(feature = "kernels")]
    if let (Backend::Device(device), Some(_)) = (backend, input.prepared) {
        // The step's plan was made of checked sequences; another look in each layer would outlast the layer.
        return super::device::paged_attention(device, input);
    }
    for index in 0..input.sequences.len() {
        check_sequence(input, index)?;
    }
    #[cfg(feature = "kernels")]
    if let Backend::Device(device) = backend {
        return super::device::paged_attention(device, input);
    }
    let cpu = backend.host();
    let q = F32View::of(input.q, "q")?;
    let mut output = vec![0.0; rows * q_heads * dim];
    cpu::attention::paged_attention(cpu, input, &q, q_heads, &mut output);
    from_elements(output, (rows, q_heads * dim))
}

/// Refuses layers that the backend has no attention for.
///
/// # Errors
/// [`OpError::Kernel`] says which types, head or block size a device has no kernel for; the CPU takes every valid layout.
///
/// [`OpError::Kernel`]: OpError
#[cfg_attr(not(feature = "kernels"), expect(unused_variables, reason = "the CPU takes every head"))]
pub fn check_attention(
    backend: &Backend,
    layout: &KvPageLayout,
    q_heads: usize,
    window: Option<u32>,
) -> Result<(), OpError> {
    layout.validate()?;
    match backend {
        Backend::Cpu(_) => Ok(()),
        #[cfg(feature = "kernels")]
        Backend::Device(_) => super::device::check_attention(layout, q_heads, window),
    }
}

fn refuse<T>(
    argument: &'static str,
    expected: impl Into<String>,
    found: impl ToString,
) -> Result<T, OpError> {
    Err(OpError::Value { argument, expected: expected.into(), found: found.to_string() })
}

fn check_shapes(input: &AttentionInput<'_>) -> Result<(usize, usize, usize), OpError> {
    let layout = input.layout;
    let shape = |argument, expected: String, found| Err(OpError::Shape { argument, expected, found });
    let Ok((rows, q_heads, dim)) = input.q.dims3() else {
        return shape("q", "three dimensions".to_owned(), input.q.dims().to_vec());
    };
    if dim != layout.head_dim
        || layout.kv_heads == 0
        || q_heads == 0
        || !q_heads.is_multiple_of(layout.kv_heads)
    {
        let expected = format!("[rows, a multiple of {} heads, {}]", layout.kv_heads, layout.head_dim);
        return shape("q", expected, input.q.dims().to_vec());
    }
    if input.positions.len() != rows {
        return shape("positions", format!("[{rows}], one a row of q"), vec![input.positions.len()]);
    }
    if input.cu_seqlens_q.len() != input.sequences.len() + 1 {
        let expected = format!("[{}], one more than sequences", input.sequences.len() + 1);
        return shape("cu_seqlens_q", expected, vec![input.cu_seqlens_q.len()]);
    }
    if let Some(sinks) = input.sinks.filter(|sinks| sinks.len() != q_heads) {
        return shape("sinks", format!("[{q_heads}], one a query head"), vec![sinks.len()]);
    }
    Ok((rows, q_heads, dim))
}

fn check_numbers(input: &AttentionInput<'_>) -> Result<(), OpError> {
    let offsets = input.cu_seqlens_q;
    let covers = offsets.first() == Some(&0)
        && offsets.last().is_some_and(|&last| last as usize == input.positions.len());
    if !covers || !offsets.is_sorted() {
        return refuse(
            "cu_seqlens_q",
            format!("ascending from 0 to {}", input.positions.len()),
            format!("{offsets:?}"),
        );
    }
    if input.window == Some(0) {
        return refuse("window", "at least 1", 0);
    }
    if let Some(cap) = input.soft_cap.filter(|cap| !(cap.is_finite() && *cap > 0.0)) {
        return refuse("soft_cap", "positive and finite", cap);
    }
    if !input.scale.is_finite() {
        return refuse("scale", "finite", input.scale);
    }
    Ok(())
}

fn check_sequence(input: &AttentionInput<'_>, index: usize) -> Result<(), OpError> {
    let sequence = &input.sequences[index];
    let positions =
        &input.positions[input.cu_seqlens_q[index] as usize..input.cu_seqlens_q[index + 1] as usize];
    let (Some(&first), Some(&last)) = (positions.first(), positions.last()) else {
        return Ok(());
    };
    if !positions.is_sorted() {
        return refuse(
            "positions",
            "ascending within a sequence",
            format!("{positions:?} in sequence {index}"),
        );
    }
    let block_size = input.layout.block_size as u64;
    let start = u64::from(sequence.first_position);
    if !start.is_multiple_of(block_size) {
        return refuse("first_position", format!("a multiple of the block size {block_size}"), start);
    }
    let end = start + sequence.pages.len() as u64 * block_size;
    if u64::from(last) >= end {
        return refuse("positions", format!("below {end}, where the pages of sequence {index} end"), last);
    }
    let first_visible =
        input.window.map_or(0, |window| (u64::from(first) + 1).saturating_sub(u64::from(window)));
    if first_visible < start {
        let expected = format!("at most {first_visible}, the first position that sequence {index} sees");
        return refuse("first_position", expected, start);
    }
    let num_pages = input.arena.num_pages();
    match sequence.pages.iter().position(|&page| page as usize >= num_pages) {
        Some(position) => Err(OpError::Index {
            argument: "pages",
            position,
            index: u64::from(sequence.pages[position]),
            limit: num_pages as u64,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

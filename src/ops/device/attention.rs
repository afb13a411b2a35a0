//! Paged attention.
use super::{
    DeviceBackend,
    memory::{Listed, Parcel},
    tensors::{Input, Output},
};
use crate::ops::{AttentionInput, KvArena, KvDtype, KvPageLayout, OpError, SequencePages, StepRows};
use candle_core::Tensor;
use longwick_kernels::{
    AttentionPlan, AttentionSequence, AttentionShape, Dtype, KvLayout, KvPool, KvScales, PagedAttention,
    PlanView,
};

/// The kernels' name of an element type.
fn dtype(dtype: KvDtype) -> Dtype {
    match dtype {
        KvDtype::F32 => Dtype::F32,
        KvDtype::Bf16 => Dtype::Bf16,
        KvDtype::Fp8 => Dtype::Fp8E4m3,
    }
}

/// The type of the products' operands.
fn product_dtype(cache: KvDtype) -> Dtype {
    match cache {
        KvDtype::F32 => Dtype::F32,
        KvDtype::Bf16 | KvDtype::Fp8 => Dtype::Bf16,
    }
}

/// A layer's attention as the kernels choose by: f32 products over an f32 cache, else bf16 on tensor cores. Queries and
/// outputs are f32 as all activations.
pub(super) fn shape(layout: &KvPageLayout, q_heads: usize, window: Option<u32>) -> AttentionShape {
    AttentionShape {
        query_dtype: Dtype::F32,
        dtype: product_dtype(layout.dtype),
        cache_dtype: dtype(layout.dtype),
        q_heads,
        kv_heads: layout.kv_heads,
        head_dim: layout.head_dim,
        block_size: layout.block_size,
        window,
    }
}

/// Which tile attends to which keys.
pub(super) fn plan(
    shape: AttentionShape,
    rows: StepRows<'_>,
    sequences: &[SequencePages<'_>],
) -> Result<AttentionPlan, OpError> {
    let offsets = rows.cu_seqlens_q.windows(2);
    let sequences: Vec<AttentionSequence<'_>> = offsets
        .zip(sequences)
        .map(|(offsets, sequence)| AttentionSequence {
            blocks: sequence.pages,
            first_position: sequence.first_position,
            positions: &rows.positions[offsets[0] as usize..offsets[1] as usize],
        })
        .collect();
    Ok(AttentionPlan::new(shape, &sequences)?)
}

/// Where a layer lies in the arena's pages.
///
/// # Layout on a device
/// As on the CPU, but for keys: `[block_size][head_dim]`, as values. Heads are multiples of 16 elements there, so that a page takes as
/// many bytes.
pub(super) fn kv_layout(arena: &KvArena, layout: &KvPageLayout, layer_in_page: usize) -> KvLayout {
    let keys = layout.head_offset(layer_in_page, 0);
    let scales = KvScales {
        keys: keys + layout.key_scales_offset(),
        values: keys + layout.value_scales_offset(),
        head_stride: layout.head_bytes(),
    };
    KvLayout {
        dtype: dtype(layout.dtype),
        num_blocks: arena.num_pages(),
        block_size: layout.block_size,
        kv_heads: layout.kv_heads,
        head_dim: layout.head_dim,
        block_stride: arena.page_stride(),
        head_stride: layout.head_bytes(),
        keys,
        values: keys + layout.values_offset(),
        scales: (layout.dtype.scale_bytes() > 0).then_some(scales),
    }
}

/// As [`crate::ops::paged_attention`], whose arguments are checked.
pub(in crate::ops) fn paged_attention(
    device: &DeviceBackend,
    input: &AttentionInput<'_>,
) -> Result<Tensor, OpError> {
    if let Some(step) = input.prepared {
        let plan = step.tables.plan(step.group, step.rows);
        let plan = plan.ok_or(OpError::Device { argument: "prepared" })?;
        return attend(device, input, plan);
    }
    let (rows, q_heads, _) = input.q.dims3()?;
    debug_assert_eq!(rows, input.positions.len());
    let rows = StepRows { cu_seqlens_q: input.cu_seqlens_q, positions: input.positions };
    let plan = plan(shape(input.layout, q_heads, input.window), rows, input.sequences)?;
    let mut parcel = Parcel::default();
    let words = parcel.add(plan.words());
    let memory = parcel.send(device)?;
    // SAFETY: the words lie there, sent on the stream that the launch goes to.
    attend(device, input, unsafe { PlanView::copied(&plan, memory.view(words)) })
}

fn attend(device: &DeviceBackend, input: &AttentionInput<'_>, plan: PlanView<'_>) -> Result<Tensor, OpError> {
    let (rows, q_heads, dim) = input.q.dims3()?;
    let q = Input::of(device, input.q, "q")?;
    let sinks = input.sinks.map(|sinks| Listed::of(device, sinks.into())).transpose()?;
    let layout = kv_layout(input.arena, input.layout, input.layer_in_page);
    let mut workspace = device.floats(plan.plan().workspace_len())?;
    let mut out = Output::new(device, input.q.elem_count())?;
    let workspace_len = plan.plan().workspace_len();
    let kernel = PagedAttention {
        q: q.view()?,
        cache: KvPool { pool: input.arena.pool(), layout: &layout },
        plan,
        scale: input.scale,
        soft_cap: input.soft_cap,
        sinks: sinks.as_ref().map(Listed::view),
        workspace: workspace.floats_mut(workspace_len),
        out: out.view_mut(),
        log_sum_exp: None,
    };
    device.submit(|stream| kernel.launch(stream))?;
    out.into_tensor((rows, q_heads * dim))
}

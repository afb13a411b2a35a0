//! Attention over paged keys and values.
mod plan;

use crate::{Dtype, KernelError, KvPool, Stream, View, ViewMut, ffi};
pub use plan::{AttentionPlan, AttentionSequence, AttentionShape};

/// A plan's words where the kernels read them, beside the plan that was checked.
#[derive(Clone, Copy)]
pub struct PlanView<'a> {
    plan: &'a AttentionPlan,
    words: View<'a>,
}

impl<'a> PlanView<'a> {
    /// For a stream of the emulator.
    pub fn on_host(plan: &'a AttentionPlan) -> Self {
        Self { plan, words: View::on_host(plan.words()) }
    }

    /// # Safety
    /// When the launch runs, `words` must hold what [`AttentionPlan::words`] holds.
    pub unsafe fn copied(plan: &'a AttentionPlan, words: View<'a>) -> Self {
        Self { plan, words }
    }

    /// The plan.
    pub fn plan(&self) -> &'a AttentionPlan {
        self.plan
    }
}

/// Causal attention of packed query tokens to their sequences' paged keys and values.
///
/// # Shapes
/// * `q`, `out`: `[tokens, q_heads, head_dim]`, in the plan's order; query head h attends to kv head `h / (q_heads / kv_heads)`
/// * `log_sum_exp`: `[tokens, q_heads]`, natural log of the sum of exp(score), the sink included
///
/// # Arithmetic
/// Spans of 256 keys at absolute positions, merged in ascending order, the same in prefill and decode: a row's bits depend on its
/// query, its position and its visible keys and values alone. A key that a row may not see takes no part, whatever the cache holds.
/// Queries, weights, and fp8 keys and values times their scale are rounded to the products' type; scores, sums and weights' sums are
/// f32.
///
/// # Source
/// Dao 2023, FlashAttention-2; flash decoding with spans of fixed size; sinks as in the gpt-oss model card.
pub struct PagedAttention<'a> {
    /// Of the plan's query type.
    pub q: View<'a>,
    /// Holds the plan's blocks.
    pub cache: KvPool<'a>,
    /// Which tokens attend to which blocks.
    pub plan: PlanView<'a>,
    /// Multiplies q.k.
    pub scale: f32,
    /// `cap * tanh(score / cap)`; positive.
    pub soft_cap: Option<f32>,
    /// `[q_heads]`, f32: scores that take weight but no value.
    pub sinks: Option<View<'a>>,
    /// [`AttentionPlan::workspace_len`] floats.
    pub workspace: ViewMut<'a>,
    /// As `q`.
    pub out: ViewMut<'a>,
    /// f32.
    pub log_sum_exp: Option<ViewMut<'a>>,
}

impl PagedAttention<'_> {
    /// # Errors
    /// [`KernelError`] names the argument that does not fit, or what a launch ran into.
    pub fn launch(self, stream: &mut Stream) -> Result<(), KernelError> {
        let plan = self.plan.plan;
        self.check_numbers()?;
        let params = self.params()?;
        let stages: [(&'static str, _, plan::Section); 3] = [
            (
                "paged_prefill_attention",
                ffi::longwick_paged_prefill_attention as ffi::AttentionLauncher,
                plan.wide(),
            ),
            ("paged_decode_attention", ffi::longwick_paged_decode_attention, plan.narrow()),
            ("merge_attention", ffi::longwick_merge_attention, plan.merges()),
        ];
        for (operation, launcher, section) in stages {
            let params =
                ffi::AttentionParams { first_item: section.first, num_items: section.count, ..params };
            // SAFETY: the plan was built within its shape, which was compared with the cache and the queries; every view was checked
            // to reach over the plan's tokens.
            stream.submit(operation, |raw| unsafe { launcher(&params, raw) })?;
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), KernelError> {
        let (shape, layout) = (&self.plan.plan.shape(), self.cache.layout);
        let of_shape = (shape.cache_dtype, shape.block_size, shape.kv_heads, shape.head_dim);
        let of_cache = (layout.dtype, layout.block_size, layout.kv_heads, layout.head_dim);
        if of_shape != of_cache {
            return Err(KernelError::value(
                "cache",
                format!("the plan's {of_shape:?}"),
                format!("{of_cache:?}"),
            ));
        }
        let limit = self.plan.plan.blocks_end();
        if limit > layout.num_blocks {
            return Err(KernelError::value("cache", format!("at least {limit} blocks"), layout.num_blocks));
        }
        if !self.scale.is_finite() {
            return Err(KernelError::value("scale", "finite", self.scale));
        }
        match self.soft_cap {
            Some(cap) if !(cap.is_finite() && cap > 0.0) => {
                Err(KernelError::value("soft_cap", "positive and finite", cap))
            }
            _ => Ok(()),
        }
    }

    fn params(&self) -> Result<ffi::AttentionParams, KernelError> {
        let plan = self.plan.plan;
        let shape = plan.shape();
        let elements = plan.num_tokens() * shape.q_heads * shape.head_dim;
        let workspace = self.workspace.as_view();
        if workspace.len() < plan.workspace_len() {
            let (expected, found) = (plan.workspace_len(), workspace.len());
            return Err(KernelError::Length { argument: "workspace", expected, found });
        }
        let partial_sums = workspace.expect("workspace", Dtype::F32, workspace.len())?;
        let log_sum_exp = self.log_sum_exp.as_ref().map_or(Ok(0), |view| {
            view.as_view().expect("log_sum_exp", Dtype::F32, plan.num_tokens() * shape.q_heads)
        })?;
        let sinks =
            self.sinks.as_ref().map_or(Ok(0), |view| view.expect("sinks", Dtype::F32, shape.q_heads))?;
        Ok(ffi::AttentionParams {
            q: self.q.expect("q", shape.query_dtype, elements)?,
            out: self.out.as_view().expect("out", shape.query_dtype, elements)?,
            log_sum_exp,
            sinks,
            plan: self.plan.words.expect("plan", Dtype::U32, plan.words().len())?,
            partial_sums,
            partial_stats: partial_sums + 4 * plan.partial_sums_len() as u64,
            cache: self.cache.layout.params(&self.cache.pool)?,
            first_item: 0,
            num_items: 0,
            positions: plan.positions_word(),
            q_heads: ffi::count("q_heads", shape.q_heads)?,
            window: shape.window.unwrap_or(u32::MAX),
            scale: self.scale,
            soft_cap: self.soft_cap.unwrap_or(0.0),
            dtype: shape.dtype.code(),
            query_dtype: shape.query_dtype.code(),
        })
    }
}

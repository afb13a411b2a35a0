//! What the kernels take, asked before anything runs.
use super::attention::{plan, shape};
use crate::ops::{KvPageLayout, OpError, StepRows};

/// Refuses a layer's attention that no kernel was built for.
pub(in crate::ops) fn check_attention(
    layout: &KvPageLayout,
    q_heads: usize,
    window: Option<u32>,
) -> Result<(), OpError> {
    let nothing = StepRows { cu_seqlens_q: &[0], positions: &[] };
    plan(shape(layout, q_heads, window), nothing, &[]).map(|_| ())
}

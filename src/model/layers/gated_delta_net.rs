//! [`GatedDeltaNet`]: linear attention with a gated delta rule, over state slots.

use super::{ForwardContext, LayerLoader, Rows};
use crate::model::ModelError;
use crate::ops::{
    self, GatedDeltaInput, KvArena, OpError, PackedMatrix, RecurrentBatch, RecurrentShape, StateLayout,
};
use candle_core::Tensor;

/// Projections, causal convolution, gated delta rule, gated norm, output projection.
pub struct GatedDeltaNet {
    layer: usize,
    shape: RecurrentShape,
    qkv_proj: PackedMatrix,
    gate_proj: PackedMatrix,
    beta_proj: PackedMatrix,
    decay_proj: PackedMatrix,
    /// `[conv_kernel, channels]`.
    convolution: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    /// Not centred on zero, unlike the other norms of the family.
    norm: Tensor,
    norm_eps: f32,
    out_proj: PackedMatrix,
}

impl GatedDeltaNet {
    /// Loads `<prefix>.in_proj_{qkv,z,b,a}`, `conv1d`, `A_log`, `dt_bias`, `norm` and `out_proj`.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where one is missing or has another shape.
    pub fn load(
        loader: &mut LayerLoader<'_>,
        prefix: &str,
        layer: usize,
        shape: RecurrentShape,
    ) -> Result<Self, ModelError> {
        let (hidden, heads) = (loader.config.hidden_size, shape.value_heads);
        let (channels, values) = (shape.channels(), heads * shape.value_dim);
        Ok(Self {
            layer,
            shape,
            qkv_proj: loader.matrix(&format!("{prefix}.in_proj_qkv.weight"), channels, hidden)?,
            gate_proj: loader.matrix(&format!("{prefix}.in_proj_z.weight"), values, hidden)?,
            beta_proj: loader.matrix(&format!("{prefix}.in_proj_b.weight"), heads, hidden)?,
            decay_proj: loader.matrix(&format!("{prefix}.in_proj_a.weight"), heads, hidden)?,
            convolution: loader.convolution(
                &format!("{prefix}.conv1d.weight"),
                channels,
                shape.conv_kernel,
            )?,
            a_log: a_log(loader, &format!("{prefix}.A_log"), heads)?,
            dt_bias: loader.vector(&format!("{prefix}.dt_bias"), heads, 0.0)?,
            norm: loader.vector(&format!("{prefix}.norm.weight"), shape.value_dim, 0.0)?,
            norm_eps: loader.config.rms_norm_eps,
            out_proj: loader.matrix(&format!("{prefix}.out_proj.weight"), hidden, values)?,
        })
    }

    /// Advances the states by all tokens of `x: [tokens, hidden]`, and returns `rows` of the outputs: `[rows, hidden]`.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shapes or the slots do not fit.
    pub fn forward(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
        rows: Rows,
    ) -> Result<Tensor, ModelError> {
        let backend = context.backend;
        let qkv = ops::linear(backend, x, &self.qkv_proj, None)?;
        let all = context.rows(Rows::All);
        let batch = RecurrentBatch {
            cu_seqlens: all.cu_seqlens_q,
            positions: all.positions,
            sequences: &context.batch.recurrent,
            layout: self.layout(context)?,
            layer_in_slot: context.plan.layers[self.layer].layer_in_page,
        };
        let qkv = ops::causal_conv(backend, &qkv, &self.convolution, &batch, arena)?;
        let input = GatedDeltaInput {
            qkv: &qkv,
            beta: &ops::linear(backend, x, &self.beta_proj, None)?,
            decay: &ops::linear(backend, x, &self.decay_proj, None)?,
            a_log: &self.a_log,
            dt_bias: &self.dt_bias,
        };
        let read = ops::gated_delta(backend, &input, &batch, arena)?;
        let (x, read) = (context.carried_on(x, rows)?, context.carried_on(&read, rows)?);
        let gate = ops::linear(backend, &x, &self.gate_proj, None)?;
        let heads = read.reshape((gate.dims()[0] * self.shape.value_heads, self.shape.value_dim))?;
        let normed = ops::rms_norm(backend, &heads, &self.norm, self.norm_eps)?.reshape(gate.shape())?;
        let gated = ops::silu_mul(backend, &gate, &normed)?;
        Ok(ops::linear(backend, &gated, &self.out_proj, None)?)
    }

    fn layout<'a>(&self, context: &ForwardContext<'a>) -> Result<&'a StateLayout, ModelError> {
        let refused = || OpError::Value {
            argument: "plan",
            expected: format!("one with state slots, for layer {}", self.layer),
            found: "one without".to_owned(),
        };
        Ok(context.plan.states.as_ref().ok_or_else(refused)?)
    }
}

/// The logarithms of the heads' decay rates. Files that hold the rates have them negated; a rate of 0 decays nothing, and its
/// logarithm, minus infinity, says so.
fn a_log(loader: &mut LayerLoader<'_>, name: &str, heads: usize) -> Result<Tensor, ModelError> {
    let stored = loader.vector(name, heads, 0.0)?;
    if !loader.config.recurrent.as_ref().is_some_and(|recurrent| recurrent.holds_decay_rates) {
        return Ok(stored);
    }
    let stored: Vec<f32> = stored.to_vec1()?;
    if let Some(head) = stored.iter().position(|rate| *rate > 0.0 || rate.is_nan()) {
        let (expected, found) =
            ("at most 0 in each head".to_owned(), format!("{} in head {head}", stored[head]));
        return Err(OpError::Value { argument: "ssm_a", expected, found }.into());
    }
    let logarithms: Vec<f32> = stored.iter().map(|&rate| f64::from(-rate).ln() as f32).collect();
    Ok(Tensor::from_vec(logarithms, heads, &loader.backend.device())?)
}

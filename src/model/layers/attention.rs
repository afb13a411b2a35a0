//! [`Attention`]: grouped-query attention over the paged cache.

use super::{ForwardContext, LayerLoader, RmsNorm, Rows};
use crate::model::{ModelConfig, ModelError};
use crate::ops::{self, AttentionInput, KvArena, PackedMatrix, SequencePages};
use candle_core::Tensor;

/// Projections, optional norms of queries and keys, rotary embedding, cache write, attention, an optional gate, output
/// projection.
pub struct Attention {
    layer: usize,
    q_proj: PackedMatrix,
    /// Gates the output.
    gate_proj: Option<PackedMatrix>,
    k_proj: PackedMatrix,
    v_proj: PackedMatrix,
    o_proj: PackedMatrix,
    q_norm: Option<RmsNorm>,
    k_norm: Option<RmsNorm>,
    settings: Settings,
}

/// The config's share that attention needs at run time.
struct Settings {
    num_heads: usize,
    num_kv_heads: usize,
    head_dim: usize,
    window: Option<u32>,
    scale: f32,
    soft_cap: Option<f32>,
    rope_layout: ops::RopeLayout,
}

impl Settings {
    fn new(config: &ModelConfig, layer: usize) -> Self {
        Self {
            num_heads: config.num_heads,
            num_kv_heads: config.num_kv_heads,
            head_dim: config.head_dim,
            window: config.layer_windows[layer],
            scale: config.attention_scale,
            soft_cap: config.attention_soft_cap,
            rope_layout: config.rope_layout,
        }
    }
}

impl Attention {
    /// Loads `<prefix>.{q,k,v,o}_proj` and, where `normalises` says so, `q_norm` and `k_norm`.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where one is missing or has another shape.
    pub fn load(
        loader: &mut LayerLoader<'_>,
        prefix: &str,
        layer: usize,
        normalises: bool,
    ) -> Result<Self, ModelError> {
        let config = loader.config;
        let (hidden, dim) = (config.hidden_size, config.head_dim);
        let (q_size, kv_size) = (config.num_heads * dim, config.num_kv_heads * dim);
        let norm = |loader: &mut LayerLoader<'_>, name: &str| match normalises {
            true => RmsNorm::load(loader, &format!("{prefix}.{name}.weight"), dim).map(Some),
            false => Ok(None),
        };
        let q_name = format!("{prefix}.q_proj.weight");
        let (q_proj, gate_proj) = if config.attention_output_gate {
            let [queries, gates] = loader.interleaved_matrices(&q_name, config.num_heads, dim, hidden)?;
            (queries, Some(gates))
        } else {
            (loader.matrix(&q_name, q_size, hidden)?, None)
        };
        Ok(Self {
            layer,
            q_proj,
            gate_proj,
            k_proj: loader.matrix(&format!("{prefix}.k_proj.weight"), kv_size, hidden)?,
            v_proj: loader.matrix(&format!("{prefix}.v_proj.weight"), kv_size, hidden)?,
            o_proj: loader.matrix(&format!("{prefix}.o_proj.weight"), hidden, q_size)?,
            q_norm: norm(loader, "q_norm")?,
            k_norm: norm(loader, "k_norm")?,
            settings: Settings::new(config, layer),
        })
    }

    /// Writes the keys and values of all tokens of `x: [tokens, hidden]`, then attends with `rows` of them:
    /// `[rows, hidden]`.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shapes do not fit.
    pub fn forward(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
        rows: Rows,
    ) -> Result<Tensor, ModelError> {
        self.write_keys_and_values(x, context, arena)?;
        let backend = context.backend;
        let x = match rows {
            Rows::All => x,
            Rows::Selected => &ops::select_rows(backend, x, &context.batch.output_rows)?,
        };
        let q = ops::linear(backend, x, &self.q_proj, None)?;
        let q = self.heads(&q, self.settings.num_heads, self.q_norm.as_ref(), context, rows)?;
        let slot = context.plan.layers[self.layer];
        let sequences: Vec<SequencePages<'_>> = context.batch.groups[slot.group]
            .block_tables
            .iter()
            .map(|table| SequencePages { pages: &table.pages, first_position: table.first_position })
            .collect();
        let query_rows = context.rows(rows);
        let attended = ops::paged_attention(
            backend,
            &AttentionInput {
                q: &q,
                cu_seqlens_q: &query_rows.cu_seqlens_q,
                positions: &query_rows.positions,
                sequences: &sequences,
                arena,
                layout: &context.plan.groups[slot.group].layout,
                layer_in_page: slot.layer_in_page,
                scale: self.settings.scale,
                window: self.settings.window,
                sinks: None,
                soft_cap: self.settings.soft_cap,
            },
        )?;
        let attended = match &self.gate_proj {
            Some(gate_proj) => {
                ops::sigmoid_mul(backend, &ops::linear(backend, x, gate_proj, None)?, &attended)?
            }
            None => attended,
        };
        Ok(ops::linear(backend, &attended, &self.o_proj, None)?)
    }

    fn write_keys_and_values(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
    ) -> Result<(), ModelError> {
        let backend = context.backend;
        let num_kv_heads = self.settings.num_kv_heads;
        let keys = ops::linear(backend, x, &self.k_proj, None)?;
        let keys = self.heads(&keys, num_kv_heads, self.k_norm.as_ref(), context, Rows::All)?;
        let values = ops::linear(backend, x, &self.v_proj, None)?;
        let values = values.reshape((context.batch.num_tokens(), num_kv_heads, self.settings.head_dim))?;
        let slot = context.plan.layers[self.layer];
        let layout = &context.plan.groups[slot.group].layout;
        let slots = &context.batch.groups[slot.group].slot_mapping;
        ops::kv_write(backend, arena, layout, slot.layer_in_page, &keys, &values, slots)?;
        Ok(())
    }

    /// Splits `[rows, heads * dim]` into heads, normalises and rotates them.
    fn heads(
        &self,
        x: &Tensor,
        num_heads: usize,
        norm: Option<&RmsNorm>,
        context: &ForwardContext<'_>,
        rows: Rows,
    ) -> Result<Tensor, ModelError> {
        let num_rows = context.rows(rows).positions.len();
        let mut x = x.reshape((num_rows, num_heads, self.settings.head_dim))?;
        if let Some(norm) = norm {
            x = norm.forward(context.backend, &x)?;
        }
        let angles = context.angles(rows, self.settings.window.is_some());
        Ok(ops::rope(context.backend, &x, angles, self.settings.rope_layout)?)
    }

    /// Bytes held in memory.
    pub fn packed_bytes(&self) -> usize {
        [&self.q_proj, &self.k_proj, &self.v_proj, &self.o_proj]
            .into_iter()
            .chain(&self.gate_proj)
            .map(PackedMatrix::packed_bytes)
            .sum()
    }
}

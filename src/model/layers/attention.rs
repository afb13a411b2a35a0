//! [`Attention`]: grouped-query attention over the paged cache.

use super::{ForwardContext, LayerLoader, Linear, RmsNorm, Rows};
use crate::model::{ModelConfig, ModelError};
use crate::ops::{self, AttentionInput, KvArena, SequencePages};
use candle_core::Tensor;

/// Projections, optional norms of queries and keys, rotary embedding, cache write, attention, output projection.
pub struct Attention {
    layer: usize,
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    q_norm: Option<RmsNorm>,
    k_norm: Option<RmsNorm>,
    /// One a query head.
    sinks: Option<Vec<f32>>,
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
    /// Loads `<prefix>.{q,k,v,o}_proj` and, where `normalises` says so, `q_norm` and `k_norm`; biases and sinks where the
    /// config has them.
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
        Ok(Self {
            layer,
            q_proj: loader.linear(&format!("{prefix}.q_proj"), q_size, hidden, config.attention_bias)?,
            k_proj: loader.linear(&format!("{prefix}.k_proj"), kv_size, hidden, config.attention_bias)?,
            v_proj: loader.linear(&format!("{prefix}.v_proj"), kv_size, hidden, config.attention_bias)?,
            o_proj: loader.linear(&format!("{prefix}.o_proj"), hidden, q_size, config.attention_bias)?,
            q_norm: norm(loader, "q_norm")?,
            k_norm: norm(loader, "k_norm")?,
            sinks: sinks(loader, prefix)?,
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
        let q = match rows {
            Rows::All => self.q_proj.forward(backend, x)?,
            Rows::Selected => {
                let x = ops::select_rows(backend, x, &context.batch.output_rows)?;
                self.q_proj.forward(backend, &x)?
            }
        };
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
                sinks: self.sinks.as_deref(),
                soft_cap: self.settings.soft_cap,
            },
        )?;
        self.o_proj.forward(backend, &attended)
    }

    fn write_keys_and_values(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
    ) -> Result<(), ModelError> {
        let backend = context.backend;
        let num_kv_heads = self.settings.num_kv_heads;
        let keys = self.k_proj.forward(backend, x)?;
        let keys = self.heads(&keys, num_kv_heads, self.k_norm.as_ref(), context, Rows::All)?;
        let values = self.v_proj.forward(backend, x)?;
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
            .iter()
            .map(|linear| linear.packed_bytes())
            .sum()
    }
}

/// A score that takes part in a query's softmax and has no value.
fn sinks(loader: &mut LayerLoader<'_>, prefix: &str) -> Result<Option<Vec<f32>>, ModelError> {
    if !loader.config.attention_sinks {
        return Ok(None);
    }
    // GGUF files give every tensor a suffix; HF's sinks have none.
    let suffix = if loader.has(&format!("{prefix}.sinks.weight"))? { ".weight" } else { "" };
    let sinks = loader.vector(&format!("{prefix}.sinks{suffix}"), loader.config.num_heads, 0.0)?;
    Ok(Some(sinks.to_vec1()?))
}

//! [`Attention`]: grouped-query attention over the paged cache.

use super::{ForwardContext, LayerLoader, Linear, RmsNorm, Rows};
use crate::model::config::KvHeads;
use crate::model::{ModelConfig, ModelError};
use crate::ops::{self, AttentionInput, KvArena, PackedMatrix};
use candle_core::Tensor;

/// Projections, optional norms of heads, rotary embedding, cache write, attention, an optional gate, output projection.
pub struct Attention {
    layer: usize,
    q_proj: Linear,
    /// Gates the output.
    gate_proj: Option<PackedMatrix>,
    o_proj: Linear,
    q_norm: Option<RmsNorm>,
    /// `None` where the layer reads what an earlier one wrote.
    keys_and_values: Option<KeysAndValues>,
    /// One a query head.
    sinks: Option<Vec<f32>>,
    settings: Settings,
}

/// What a layer writes into its cache.
struct KeysAndValues {
    k_proj: Linear,
    k_norm: Option<RmsNorm>,
    /// `None` where the projected keys, before norm and rotation, are the values too.
    v_proj: Option<Linear>,
    v_norm: Option<RmsNorm>,
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
        let KvHeads { kv_heads, head_dim } = config.kv_heads(layer);
        Self {
            num_heads: config.num_heads,
            num_kv_heads: kv_heads,
            head_dim,
            window: config.layer_windows[layer],
            scale: config.attention_scale,
            soft_cap: config.attention_soft_cap,
            rope_layout: config.rope_layout,
        }
    }
}

impl Attention {
    /// Loads `<prefix>.{q,k,v,o}_proj` and, where `normalises` says so, `q_norm` and `k_norm`; of keys and values only
    /// what the config says that the layer has, and biases and sinks where it has them. Where the config has an
    /// output gate, `q_proj` holds it too, and has no bias.
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
        let settings = Settings::new(config, layer);
        let (hidden, dim) = (config.hidden_size, settings.head_dim);
        let q_size = settings.num_heads * dim;
        let q_name = format!("{prefix}.q_proj");
        let (q_proj, gate_proj) = if config.attention_output_gate {
            let name = format!("{q_name}.weight");
            let [queries, gates] = loader.interleaved_matrices(&name, settings.num_heads, dim, hidden)?;
            (Linear { weight: queries, bias: None }, Some(gates))
        } else {
            (loader.linear(&q_name, q_size, hidden, config.attention_bias)?, None)
        };
        Ok(Self {
            layer,
            q_proj,
            gate_proj,
            keys_and_values: match layer < config.num_own_kv_layers() {
                true => Some(KeysAndValues::load(loader, prefix, &settings, normalises)?),
                false => None,
            },
            o_proj: loader.linear(&format!("{prefix}.o_proj"), hidden, q_size, config.attention_bias)?,
            q_norm: head_norm(loader, prefix, "q_norm", dim, normalises)?,
            sinks: sinks(loader, prefix)?,
            settings,
        })
    }

    /// Writes the keys and values of all tokens of `x: [tokens, hidden]`, where the layer has its own, then attends
    /// with the rows that `rows` carries on: `[rows, hidden]`.
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
        if let Some(keys_and_values) = &self.keys_and_values {
            self.write(keys_and_values, x, context, arena)?;
        }
        let backend = context.backend;
        let x = context.carried_on(x, rows)?;
        let q = self.q_proj.forward(backend, &x)?;
        let q = self.heads(&q, self.settings.num_heads, self.q_norm.as_ref(), context, rows)?;
        let slot = context.plan.layers[self.layer];
        let query_rows = context.rows(rows);
        let attended = ops::paged_attention(
            backend,
            &AttentionInput {
                q: &q,
                cu_seqlens_q: query_rows.cu_seqlens_q,
                positions: query_rows.positions,
                sequences: context.tables().sequences(slot.group),
                arena,
                layout: &context.plan.groups[slot.group].layout,
                layer_in_page: slot.layer_in_page,
                scale: self.settings.scale,
                window: self.settings.window,
                sinks: self.sinks.as_deref(),
                soft_cap: self.settings.soft_cap,
                prepared: Some(context.prepared(slot.group, rows)),
            },
        )?;
        let attended = match &self.gate_proj {
            Some(gate_proj) => {
                ops::sigmoid_mul(backend, &ops::linear(backend, &x, gate_proj, None)?, &attended)?
            }
            None => attended,
        };
        self.o_proj.forward(backend, &attended)
    }

    fn write(
        &self,
        parts: &KeysAndValues,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
    ) -> Result<(), ModelError> {
        let backend = context.backend;
        let num_kv_heads = self.settings.num_kv_heads;
        let projected = parts.k_proj.forward(backend, x)?;
        let keys = self.heads(&projected, num_kv_heads, parts.k_norm.as_ref(), context, Rows::All)?;
        let values = match &parts.v_proj {
            Some(v_proj) => v_proj.forward(backend, x)?,
            None => projected,
        };
        let mut values =
            values.reshape((context.batch.num_tokens(), num_kv_heads, self.settings.head_dim))?;
        if let Some(norm) = &parts.v_norm {
            values = norm.forward(backend, &values)?;
        }
        let slot = context.plan.layers[self.layer];
        let layout = &context.plan.groups[slot.group].layout;
        let slots = context.tables().slots(slot.group);
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
        let x = x.reshape((num_rows, num_heads, self.settings.head_dim))?;
        let angles = context.angles(rows, self.settings.window.is_some());
        let norm = norm.map(RmsNorm::parts);
        Ok(ops::normed_rope(context.backend, &x, norm, angles, self.settings.rope_layout)?)
    }
}

impl KeysAndValues {
    fn load(
        loader: &mut LayerLoader<'_>,
        prefix: &str,
        settings: &Settings,
        normalises: bool,
    ) -> Result<Self, ModelError> {
        let (hidden, dim, is_biased) =
            (loader.config.hidden_size, settings.head_dim, loader.config.attention_bias);
        let gemma4 = loader.config.gemma4;
        let size = settings.num_kv_heads * dim;
        let keys_are_values =
            gemma4.is_some_and(|gemma4| gemma4.full_keys_are_values) && settings.window.is_none();
        Ok(Self {
            k_proj: loader.linear(&format!("{prefix}.k_proj"), size, hidden, is_biased)?,
            k_norm: head_norm(loader, prefix, "k_norm", dim, normalises)?,
            v_proj: match keys_are_values {
                true => None,
                false => Some(loader.linear(&format!("{prefix}.v_proj"), size, hidden, is_biased)?),
            },
            v_norm: gemma4.map(|_| RmsNorm::weightless(loader, dim)).transpose()?,
        })
    }
}

/// The norm of each head, where the family has one.
fn head_norm(
    loader: &mut LayerLoader<'_>,
    prefix: &str,
    name: &str,
    dim: usize,
    normalises: bool,
) -> Result<Option<RmsNorm>, ModelError> {
    match normalises {
        true => RmsNorm::load(loader, &format!("{prefix}.{name}.weight"), dim).map(Some),
        false => Ok(None),
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

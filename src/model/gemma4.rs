//! Gemma 4, text: Gemma 3's block with heads of two sizes, normalised values, layers that share the keys and values of
//! earlier ones, a per-layer embedding and a scalar at each layer's end.
//!
//! # Source
//! `models/gemma4` of HF transformers 5.24, read 2026-11.

use super::config::PerLayerInputs;
use super::layers::{Block, Decoder, ForwardContext, LayerLoader, RmsNorm, Rows, SandwichBlock};
use super::{Activation, CausalLm, ModelError};
use crate::ops::{self, KvArena, PackedMatrix};
use crate::weights::MappedMatrix;
use candle_core::Tensor;

/// Gemma 3's block, the layer's input of its own, and a scalar.
struct Gemma4Block {
    sandwich: SandwichBlock,
    per_layer_input: Option<PerLayerInput>,
    scalar: f32,
}

impl Block for Gemma4Block {
    fn forward(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
        rows: Rows,
    ) -> Result<Tensor, ModelError> {
        let mut x = self.sandwich.forward(x, context, arena, rows)?;
        if let Some(input) = &self.per_layer_input {
            x = input.forward(&x, context, rows)?;
        }
        Ok(ops::scale(context.backend, &x, self.scalar)?)
    }
}

/// What all layers' inputs share.
struct Shared {
    settings: PerLayerInputs,
    table: MappedMatrix,
    norm: RmsNorm,
}

impl Shared {
    fn load(loader: &mut LayerLoader<'_>, settings: PerLayerInputs) -> Result<Self, ModelError> {
        let shape = [settings.vocab_size, loader.config.num_layers() * settings.size];
        Ok(Self {
            settings,
            table: loader.mapped_matrix("model.embed_tokens_per_layer.weight", shape)?,
            norm: RmsNorm::load(loader, "model.per_layer_projection_norm.weight", settings.size)?,
        })
    }
}

/// A layer's input of its own: x + norm(out(gelu(gate(x)) * input)), where the input is the mean, times sqrt(2), of the
/// layer's part of a second embedding of the token and of a normalised projection of the first.
struct PerLayerInput {
    /// `[vocab_size, size]`, in the mapped file: the tables of all layers are larger than the model.
    table: MappedMatrix,
    /// Multiplies the table's rows.
    table_scale: f32,
    /// `[size, hidden]`, of the first embedding.
    projection: PackedMatrix,
    /// Multiplies what is projected.
    projection_scale: f32,
    projection_norm: RmsNorm,
    gate: PackedMatrix,
    activation: Activation,
    out: PackedMatrix,
    out_norm: RmsNorm,
}

impl PerLayerInput {
    fn load(loader: &mut LayerLoader<'_>, layer: usize, shared: &Shared) -> Result<Self, ModelError> {
        let prefix = format!("model.layers.{layer}");
        let (size, hidden) = (shared.settings.size, loader.config.hidden_size);
        let part = layer * size..(layer + 1) * size;
        let shape = [loader.config.num_layers() * size, hidden];
        let projection = "model.per_layer_model_projection.weight";
        Ok(Self {
            table: shared.table.narrow(part.clone())?,
            table_scale: (size as f32).sqrt(),
            projection: loader.matrix_rows(projection, shape, part)?,
            projection_scale: (1.0 / (hidden as f64).sqrt()) as f32,
            projection_norm: shared.norm.clone(),
            gate: loader.matrix(&format!("{prefix}.per_layer_input_gate.weight"), size, hidden)?,
            activation: loader.config.activation,
            out: loader.matrix(&format!("{prefix}.per_layer_projection.weight"), hidden, size)?,
            out_norm: RmsNorm::load(loader, &format!("{prefix}.post_per_layer_input_norm.weight"), hidden)?,
        })
    }

    fn forward(&self, x: &Tensor, context: &ForwardContext<'_>, rows: Rows) -> Result<Tensor, ModelError> {
        let backend = context.backend;
        let input = self.input(context, rows)?;
        let gate = ops::linear(backend, x, &self.gate, None)?;
        let gated = self.activation.gate(backend, &gate, &input)?;
        let out = ops::linear(backend, &gated, &self.out, None)?;
        let out = self.out_norm.forward(backend, &out)?;
        Ok(ops::add(backend, x, &out)?)
    }

    /// `[rows, size]`.
    fn input(&self, context: &ForwardContext<'_>, rows: Rows) -> Result<Tensor, ModelError> {
        let backend = context.backend;
        let (ids, embedded) = context.tokens(rows)?;
        let projected = ops::linear(backend, &embedded, &self.projection, None)?;
        let projected = ops::scale(backend, &projected, self.projection_scale)?;
        let projected = self.projection_norm.forward(backend, &projected)?;
        let looked_up = ops::mapped_embedding(backend, &self.table, &ids)?;
        let looked_up = ops::scale(backend, &looked_up, self.table_scale)?;
        let sum = ops::add(backend, &projected, &looked_up)?;
        Ok(ops::scale(backend, &sum, std::f32::consts::FRAC_1_SQRT_2)?)
    }
}

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    let settings = loader.config.gemma4.and_then(|gemma4| gemma4.per_layer_inputs);
    let shared = settings.map(|settings| Shared::load(loader, settings)).transpose()?;
    let block = |loader: &mut LayerLoader<'_>, layer: usize| {
        Ok(Gemma4Block {
            sandwich: SandwichBlock::load(loader, layer)?,
            per_layer_input: match &shared {
                Some(shared) => Some(PerLayerInput::load(loader, layer, shared)?),
                None => None,
            },
            scalar: loader.scalar(&format!("model.layers.{layer}.layer_scalar"))?,
        })
    };
    Ok(Box::new(Decoder::load(loader, block)?))
}

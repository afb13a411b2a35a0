//! [`Decoder`]: embedding, blocks, last norm and vocabulary projection.

use super::{ForwardContext, LayerLoader, RmsNorm, Rows, StepQueries, WeightPlacement};
use crate::kv::KvPlan;
use crate::model::{CausalLm, ForwardBatch, HeadSource, ModelConfig, ModelError};
use crate::ops::{self, Backend, KvArena, PackedMatrix};
use candle_core::Tensor;
use std::cmp::Ordering;

/// One decoder layer.
pub trait Block: Send {
    /// Computes the layer for the rows of `x: [tokens, hidden]`, and returns those that `rows` says.
    ///
    /// # Errors
    /// [`ModelError::Op`] from an operation.
    fn forward(
        &self,
        x: &Tensor,
        context: &ForwardContext<'_>,
        arena: &mut KvArena,
        rows: Rows,
    ) -> Result<Tensor, ModelError>;
}

/// A decoder of equal blocks.
pub struct Decoder<B> {
    backend: Backend,
    config: ModelConfig,
    embedding: PackedMatrix,
    blocks: Vec<B>,
    norm: RmsNorm,
    /// `None` where the embedding serves as the projection too.
    head: Option<PackedMatrix>,
    placement: WeightPlacement,
}

impl<B: Block> Decoder<B> {
    /// Loads embedding, blocks (by `block(loader, layer)`), last norm and head.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where a tensor is missing or has another shape.
    pub fn load(
        loader: &mut LayerLoader<'_>,
        mut block: impl FnMut(&mut LayerLoader<'_>, usize) -> Result<B, ModelError>,
    ) -> Result<Self, ModelError> {
        let config = loader.config.clone();
        let (vocab, hidden) = (config.vocab_size, config.hidden_size);
        let embedding = loader.matrix("model.embed_tokens.weight", vocab, hidden)?;
        let blocks = (0..config.num_layers()).map(|layer| block(loader, layer)).collect::<Result<_, _>>()?;
        let norm = RmsNorm::load(loader, "model.norm.weight", hidden)?;
        let has_head = match config.head {
            HeadSource::Own => true,
            HeadSource::Embedding => false,
            HeadSource::WhatThereIs => loader.has("lm_head.weight")?,
        };
        let head = has_head.then(|| loader.matrix("lm_head.weight", vocab, hidden)).transpose()?;
        let (backend, placement) = (loader.backend.clone(), loader.placement());
        Ok(Self { backend, config, embedding, blocks, norm, head, placement })
    }
}

impl<B: Block> CausalLm for Decoder<B> {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn weight_placement(&self) -> WeightPlacement {
        self.placement
    }

    fn forward(
        &self,
        batch: &ForwardBatch,
        plan: &KvPlan,
        arena: &mut KvArena,
    ) -> Result<Tensor, ModelError> {
        let mut x = ops::embedding(&self.backend, &self.embedding, &batch.token_ids)?;
        if let Some(factor) = self.config.embedding_scale {
            x = ops::scale(&self.backend, &x, factor)?;
        }
        let queries = StepQueries::new(batch);
        let context = ForwardContext::new(&self.backend, &self.config, batch, &queries, plan, x.clone())?;
        // What comes after the last keys and values is of use to its own row alone.
        let last_own = self.config.num_own_kv_layers().saturating_sub(1);
        for (layer, block) in self.blocks.iter().enumerate() {
            let rows = match layer.cmp(&last_own) {
                Ordering::Less => Rows::All,
                Ordering::Equal => Rows::Selected,
                Ordering::Greater => Rows::SelectedBefore,
            };
            x = block.forward(&x, &context, arena, rows)?;
        }
        self.norm.forward(&self.backend, &x)
    }

    fn logits(&self, hidden: &Tensor) -> Result<Tensor, ModelError> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let logits = ops::linear(&self.backend, hidden, head, None)?;
        Ok(match self.config.logit_soft_cap {
            Some(cap) => ops::soft_cap(&self.backend, &logits, cap)?,
            None => logits,
        })
    }
}

//! [`ForwardContext`]: what every layer of one forward pass shares.

use crate::kv::KvPlan;
use crate::model::batch::{ForwardBatch, QueryRows};
use crate::model::{ModelConfig, ModelError, RopeSettings};
use crate::ops::{self, Backend, RopeAngles};
use candle_core::Tensor;
use std::borrow::Cow;

/// Which rows come into a layer, and which of them it carries on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Every token of the batch, in and out.
    All,
    /// Every token comes in, and the batch's output rows go on: enough in the last layer that has a cache of its own,
    /// once its keys and values are written.
    Selected,
    /// The output rows, in and out: the layers after that.
    SelectedBefore,
}

/// Rotary angles of one kind of layer.
struct Angles {
    all: RopeAngles,
    selected: RopeAngles,
}

/// The batch, the cache's plan, and what is computed once for all layers.
pub struct ForwardContext<'a> {
    /// Where operations run.
    pub backend: &'a Backend,
    /// What to compute.
    pub batch: &'a ForwardBatch,
    /// Where each layer's keys and values lie.
    pub plan: &'a KvPlan,
    /// What the first layer gets of every token: `[tokens, hidden]`.
    pub embedded: Tensor,
    all: QueryRows,
    selected: QueryRows,
    full: Angles,
    sliding: Option<Angles>,
}

impl<'a> ForwardContext<'a> {
    /// Tabulates the rotary angles of the batch's positions. `embedded` is what the first layer gets.
    ///
    /// # Errors
    /// [`ModelError::Op`] from the tables.
    pub fn new(
        backend: &'a Backend,
        config: &ModelConfig,
        batch: &'a ForwardBatch,
        plan: &'a KvPlan,
        embedded: Tensor,
    ) -> Result<Self, ModelError> {
        let (all, selected) = (batch.all_rows(), batch.selected_rows());
        let angles = |rope: &RopeSettings| -> Result<Angles, ModelError> {
            let (frequencies, scaling) = (rope.inverse_frequencies(), rope.attention_scaling());
            Ok(Angles {
                all: RopeAngles::new(backend, &frequencies, &all.positions, scaling)?,
                selected: RopeAngles::new(backend, &frequencies, &selected.positions, scaling)?,
            })
        };
        let full = angles(&config.rope)?;
        let sliding = match config.rope_sliding != config.rope {
            true => Some(angles(&config.rope_sliding)?),
            false => None,
        };
        Ok(Self { backend, batch, plan, embedded, all, selected, full, sliding })
    }

    /// Offsets and positions of these rows.
    pub fn rows(&self, rows: Rows) -> &QueryRows {
        match rows {
            Rows::All => &self.all,
            Rows::Selected | Rows::SelectedBefore => &self.selected,
        }
    }

    /// Rotary angles of these rows, in a full or a sliding layer.
    pub fn angles(&self, rows: Rows, slides: bool) -> &RopeAngles {
        let angles = self.sliding.as_ref().filter(|_| slides).unwrap_or(&self.full);
        match rows {
            Rows::All => &angles.all,
            Rows::Selected | Rows::SelectedBefore => &angles.selected,
        }
    }

    /// Of the rows that come into a layer, those that it carries on.
    ///
    /// # Errors
    /// [`ModelError::Op`] where `x` has not a row for each token.
    pub fn carried_on(&self, x: &Tensor, rows: Rows) -> Result<Tensor, ModelError> {
        match rows {
            Rows::All | Rows::SelectedBefore => Ok(x.clone()),
            Rows::Selected => Ok(ops::select_rows(self.backend, x, &self.batch.output_rows)?),
        }
    }

    /// Token ids, and what the first layer got of them, of the rows that a layer carries on.
    ///
    /// # Errors
    /// [`ModelError::Op`] from picking rows.
    pub fn tokens(&self, rows: Rows) -> Result<(Cow<'_, [u32]>, Tensor), ModelError> {
        let batch = self.batch;
        if rows == Rows::All {
            return Ok((Cow::Borrowed(&batch.token_ids), self.embedded.clone()));
        }
        let ids = batch.output_rows.iter().map(|&row| batch.token_ids[row as usize]).collect();
        Ok((Cow::Owned(ids), ops::select_rows(self.backend, &self.embedded, &batch.output_rows)?))
    }
}

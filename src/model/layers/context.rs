//! [`ForwardContext`]: what every layer of one forward pass shares.

use crate::kv::KvPlan;
use crate::model::batch::{ForwardBatch, QueryRows};
use crate::model::{ModelConfig, ModelError, RopeSettings};
use crate::ops::{Backend, RopeAngles};

/// Which rows a layer carries on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Every token of the batch.
    All,
    /// The batch's output rows: enough in the last layer, once its keys and values are written.
    Selected,
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
    all: QueryRows,
    selected: QueryRows,
    full: Angles,
    sliding: Option<Angles>,
}

impl<'a> ForwardContext<'a> {
    /// Tabulates the rotary angles of the batch's positions.
    ///
    /// # Errors
    /// [`ModelError::Op`] from the tables.
    pub fn new(
        backend: &'a Backend,
        config: &ModelConfig,
        batch: &'a ForwardBatch,
        plan: &'a KvPlan,
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
        Ok(Self { backend, batch, plan, all, selected, full, sliding })
    }

    /// Offsets and positions of these rows.
    pub fn rows(&self, rows: Rows) -> &QueryRows {
        match rows {
            Rows::All => &self.all,
            Rows::Selected => &self.selected,
        }
    }

    /// Rotary angles of these rows, in a full or a sliding layer.
    pub fn angles(&self, rows: Rows, slides: bool) -> &RopeAngles {
        let angles = self.sliding.as_ref().filter(|_| slides).unwrap_or(&self.full);
        match rows {
            Rows::All => &angles.all,
            Rows::Selected => &angles.selected,
        }
    }
}

//! [`ForwardContext`]: what every layer of one forward pass shares.

use crate::kv::{KvCacheGroup, KvPlan};
use crate::model::batch::{ForwardBatch, GroupBatch, QueryRows, SequenceTable};
use crate::model::{ModelConfig, ModelError};
use crate::ops::{
    self, Backend, RopeAngles, SequencePages, StepAttention, StepGroup, StepLists, StepRows, StepTables,
};
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

impl Rows {
    /// The place of these query rows in a step's tables.
    fn place(self) -> usize {
        match self {
            Rows::All => 0,
            Rows::Selected | Rows::SelectedBefore => 1,
        }
    }
}

/// The query rows of a step, by [`Rows`]: all of them, then those that are selected.
pub struct StepQueries {
    all: QueryRows,
    selected: QueryRows,
}

impl StepQueries {
    /// Those of `batch`.
    pub fn new(batch: &ForwardBatch) -> Self {
        Self { all: batch.all_rows(), selected: batch.selected_rows() }
    }
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
    tables: StepTables<'a>,
    /// Of each rotary embedding, by the place of the rows.
    angles: Vec<[RopeAngles; 2]>,
}

impl<'a> ForwardContext<'a> {
    /// Brings the step's lists to where operations read them, and tabulates the rotary angles of its positions. `embedded`
    /// is what the first layer gets.
    ///
    /// # Errors
    /// [`ModelError::Op`] from the tables.
    pub fn new(
        backend: &'a Backend,
        config: &'a ModelConfig,
        batch: &'a ForwardBatch,
        queries: &'a StepQueries,
        plan: &'a KvPlan,
        embedded: Tensor,
    ) -> Result<Self, ModelError> {
        let mut ropes = vec![&config.rope];
        if config.rope_sliding != config.rope {
            ropes.push(&config.rope_sliding);
        }
        let lists = StepLists {
            groups: step_groups(config, batch, plan),
            rows: vec![queries.all.as_step(), queries.selected.as_step()],
            frequencies: ropes.iter().map(|rope| rope.inverse_frequencies()).collect(),
        };
        let tables = StepTables::new(backend, lists)?;
        let mut angles = Vec::with_capacity(ropes.len());
        for (rope, settings) in ropes.iter().enumerate() {
            let of_rows = |rows: usize| {
                let (frequencies, positions) = (tables.frequencies(rope), tables.positions(rows));
                RopeAngles::new(backend, frequencies, positions, settings.attention_scaling())
            };
            angles.push([of_rows(0)?, of_rows(1)?]);
        }
        Ok(Self { backend, batch, plan, embedded, tables, angles })
    }

    /// Offsets and positions of these rows.
    pub fn rows(&self, rows: Rows) -> StepRows<'a> {
        self.tables.rows(rows.place())
    }

    /// The lists of the step.
    pub fn tables(&self) -> &StepTables<'a> {
        &self.tables
    }

    /// Where the attention of these rows in a group finds what was prepared for it.
    pub fn prepared(&self, group: usize, rows: Rows) -> StepAttention<'_> {
        StepAttention { tables: &self.tables, group, rows: rows.place() }
    }

    /// Rotary angles of these rows, in a full or a sliding layer.
    pub fn angles(&self, rows: Rows, slides: bool) -> &RopeAngles {
        let rope = if slides { self.angles.len() - 1 } else { 0 };
        &self.angles[rope][rows.place()]
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

/// What the layers of each KV group share.
fn step_groups<'a>(config: &ModelConfig, batch: &'a ForwardBatch, plan: &'a KvPlan) -> Vec<StepGroup<'a>> {
    let pages = |table: &'a SequenceTable| SequencePages {
        pages: &table.pages,
        first_position: table.first_position,
    };
    let groups = plan.groups.iter().zip(&batch.groups);
    let group = |(group, of_batch): (&'a KvCacheGroup, &'a GroupBatch)| StepGroup {
        layout: &group.layout,
        window: group.window,
        q_heads: config.num_heads,
        slot_mapping: &of_batch.slot_mapping,
        sequences: of_batch.block_tables.iter().map(pages).collect(),
    };
    groups.map(group).collect()
}

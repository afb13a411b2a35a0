//! A tile of query rows against one span of keys after another.
use super::{
    Call,
    kernel::{QUERY_STRIDE, SCORE_STRIDE, SPAN, SPAN_PANELS, Scores, WeightedValues, waits_for_memory},
    softmax::{Finish, Merge, Partial, ScaleScores, Softmax},
    tile::{Tile, register_rows},
};
use crate::ops::{
    InstructionSet,
    cpu::{
        kv_element::KvElement,
        simd::{LANES, dispatch},
        threads::SharedOutput,
    },
};
use std::ops::Range;

/// Runs `$body` with the constants `R` and `C` set to the given numbers.
macro_rules! with_tile {
    ($rows:expr, $columns:expr, $body:ident) => {
        match ($rows, $columns) {
            (1, 1) => $body!(1, 1),
            (1, _) => $body!(1, 2),
            (2, 1) => $body!(2, 1),
            (2, _) => $body!(2, 2),
            (3, 1) => $body!(3, 1),
            (3, _) => $body!(3, 2),
            (4, 1) => $body!(4, 1),
            (4, _) => $body!(4, 2),
            (6, 1) => $body!(6, 1),
            (6, _) => $body!(6, 2),
            (8, 1) => $body!(8, 1),
            (8, _) => $body!(8, 2),
            (_, 1) => $body!(12, 1),
            _ => $body!(12, 2),
        }
    };
}

/// What a thread works in.
pub(super) struct Scratch<E> {
    queries: Vec<f32>,
    scores: Vec<f32>,
    /// The visible keys of each row, within the span at hand.
    visible: Vec<Range<usize>>,
    /// One span's result.
    aside: Vec<f32>,
    /// What the spans so far have come to.
    running: Vec<f32>,
    key_panels: [*const E; SPAN_PANELS],
    value_panels: [*const E; SPAN_PANELS],
    /// Where keys and values have scales.
    key_scales: [*const f32; SPAN_PANELS],
    value_scales: [*const f32; SPAN_PANELS],
    value_stride: usize,
    /// Columns of a register tile, in vectors.
    vectors: usize,
}

impl<E: KvElement> Scratch<E> {
    /// For tiles of up to `rows` padded rows.
    pub(super) fn new(call: &Call<'_>, rows: usize) -> Self {
        let value_stride = call.value_stride();
        Self {
            queries: vec![0.0; rows * QUERY_STRIDE],
            scores: vec![0.0; rows * SCORE_STRIDE],
            visible: Vec::with_capacity(rows),
            aside: vec![0.0; Partial::floats(rows, value_stride)],
            running: vec![0.0; Partial::floats(rows, value_stride)],
            key_panels: [std::ptr::null(); SPAN_PANELS],
            value_panels: [std::ptr::null(); SPAN_PANELS],
            key_scales: [std::ptr::null(); SPAN_PANELS],
            value_scales: [std::ptr::null(); SPAN_PANELS],
            value_stride,
            vectors: if call.instruction_set == InstructionSet::Avx512 { 2 } else { 1 },
        }
    }

    /// Brings the tile's query rows together.
    pub(super) fn load_queries(&mut self, call: &Call<'_>, tile: &Tile) {
        let dim = call.input.layout.head_dim;
        for row in 0..tile.padded_rows {
            let target = &mut self.queries[row * QUERY_STRIDE..][..dim];
            if row < tile.rows {
                let source = tile.token(call, row) * call.q_heads + tile.query_head(call, row);
                target.copy_from_slice(&call.q[source * dim..(source + 1) * dim]);
            } else {
                target.fill(0.0);
            }
        }
    }

    /// Empties the running result.
    pub(super) fn start(&mut self, tile: &Tile) {
        let running = Partial::over(&mut self.running, tile.padded_rows);
        running.maxima.fill(f32::NEG_INFINITY);
        running.sums.fill(0.0);
        running.outputs[..tile.padded_rows * self.value_stride].fill(0.0);
    }

    /// As [`Self::compute_span`], into the scratch itself.
    pub(super) fn compute_span_aside(&mut self, call: &Call<'_>, tile: &Tile, span: usize) {
        let mut aside = std::mem::take(&mut self.aside);
        self.compute_span(call, tile, span, Partial::over(&mut aside, tile.padded_rows));
        self.aside = aside;
    }

    /// Merges what [`Self::compute_span_aside`] left.
    pub(super) fn merge_aside(&mut self, call: &Call<'_>, tile: &Tile) {
        let mut aside = std::mem::take(&mut self.aside);
        self.merge(call, tile, Partial::over(&mut aside, tile.padded_rows));
        self.aside = aside;
    }

    /// Merges the next span's result into the running one.
    pub(super) fn merge(&mut self, call: &Call<'_>, tile: &Tile, span: Partial<'_>) {
        let running = Partial::over(&mut self.running, tile.padded_rows);
        let merge = Merge { running, span, rows: tile.rows, value_stride: self.value_stride };
        dispatch(call.instruction_set, merge);
    }

    /// Writes the tile's rows of the output.
    pub(super) fn finish(&mut self, call: &Call<'_>, tile: &Tile, output: &SharedOutput<'_, f32>) {
        let dim = call.input.layout.head_dim;
        let finish = Finish {
            running: Partial::over(&mut self.running, tile.padded_rows),
            rows: tile.rows,
            value_stride: self.value_stride,
            sink: |row| call.input.sinks.map(|sinks| sinks[tile.query_head(call, row)]),
            outputs: |row| {
                let start = (tile.token(call, row) * call.q_heads + tile.query_head(call, row)) * dim;
                // SAFETY: each row and head belongs to one tile, and a tile is finished once.
                unsafe { output.slice(start..start + dim) }
            },
        };
        dispatch(call.instruction_set, finish);
    }

    /// Computes the tile's maxima, sums and weighted values over the visible keys of one span.
    pub(super) fn compute_span(&mut self, call: &Call<'_>, tile: &Tile, span: usize, out: Partial<'_>) {
        let start = span * SPAN;
        let within = |position: usize| position.saturating_sub(start).min(SPAN);
        self.visible.clear();
        self.visible.extend((0..tile.rows).map(|row| {
            let keys = tile.visible(call, row);
            within(keys.start)..within(keys.end)
        }));
        self.find_panels(call, tile, start, within(tile.keys.start)..within(tile.keys.end));
        self.compute_scores(call, tile);
        if E::SCALED {
            let (scores, visible) = (&mut self.scores, &self.visible);
            dispatch(call.instruction_set, ScaleScores { scores, visible, scales: &self.key_scales });
        }
        let softmax = Softmax {
            scores: &mut self.scores,
            visible: &self.visible,
            scale: call.input.scale,
            soft_cap: call.input.soft_cap,
            maxima: out.maxima,
            sums: out.sums,
        };
        dispatch(call.instruction_set, softmax);
        if E::SCALED {
            let (scores, visible) = (&mut self.scores, &self.visible);
            dispatch(call.instruction_set, ScaleScores { scores, visible, scales: &self.value_scales });
        }
        self.weigh_values(call, tile, out.outputs);
    }

    /// Points to the panels of `keys` of the span that begins at position `start`.
    fn find_panels(&mut self, call: &Call<'_>, tile: &Tile, start: usize, keys: Range<usize>) {
        let input = call.input;
        let layout = input.layout;
        let sequence = &input.sequences[tile.sequence];
        let head = layout.head_offset(input.layer_in_page, tile.kv_head);
        for panel in keys.start / LANES..keys.end.div_ceil(LANES) {
            // Visible keys never lie before the first page, so nor do their panels.
            let token = start + panel * LANES - sequence.first_position as usize;
            let page = sequence.pages[token / layout.block_size] as usize;
            let offset = token % layout.block_size;
            // SAFETY: the page lies in the arena and the layout fits its pages (checked); pages and all offsets within them but tokens'
            // are multiples of 64 bytes, so that elements and scales are aligned.
            unsafe {
                let head = input.arena.base().add(page * input.arena.page_stride() + head);
                self.key_panels[panel] = head.cast::<E>().add(offset * layout.head_dim);
                let values = head.add(layout.values_offset()).cast::<E>();
                self.value_panels[panel] = values.add(offset * self.value_stride);
                if E::SCALED {
                    self.key_scales[panel] = head.add(layout.key_scales_offset()).cast::<f32>().add(offset);
                    self.value_scales[panel] =
                        head.add(layout.value_scales_offset()).cast::<f32>().add(offset);
                }
            }
        }
    }

    /// The keys of the span that one of `rows` sees.
    fn seen_by(&self, rows: &Range<usize>) -> Range<usize> {
        self.visible[rows.start].start..self.visible[rows.end.min(self.visible.len()) - 1].end
    }

    fn compute_scores(&mut self, call: &Call<'_>, tile: &Tile) {
        let dim = call.input.layout.head_dim;
        let all = self.seen_by(&(0..tile.rows));
        let end = all.end.div_ceil(LANES);
        for panel in (all.start / LANES..end).step_by(self.vectors) {
            let vectors = self.vectors.min(end - panel);
            for rows in register_rows(call.instruction_set, tile.rows) {
                let seen = self.seen_by(&rows);
                if seen.is_empty() || seen.end <= panel * LANES || seen.start >= (panel + vectors) * LANES {
                    continue;
                }
                let q = self.queries[rows.start * QUERY_STRIDE..].as_ptr();
                let scores = self.scores[rows.start * SCORE_STRIDE + panel * LANES..].as_mut_ptr();
                macro_rules! body {
                    ($r:literal, $c:literal) => {{
                        let panels: [*const E; $c] = std::array::from_fn(|c| self.key_panels[panel + c]);
                        let ahead = std::array::from_fn(|c| {
                            self.key_panels[(panel + vectors + c).min(SPAN_PANELS - 1)]
                        });
                        dispatch(call.instruction_set, Scores::<E, $r, $c> { q, dim, panels, ahead, scores })
                    }};
                }
                with_tile!(rows.len(), vectors, body);
            }
        }
    }

    /// Sums p.v. All rows of a register tile go together over the keys that all of them see; a row goes alone over the few others.
    fn weigh_values(&mut self, call: &Call<'_>, tile: &Tile, outputs: &mut [f32]) {
        outputs[..tile.padded_rows * self.value_stride].fill(0.0);
        for rows in register_rows(call.instruction_set, tile.rows) {
            let last = rows.end.min(tile.rows) - 1;
            let common = self.visible[last].start..self.visible[rows.start].end;
            let alone = |row: usize| -> [Range<usize>; 2] {
                let own = &self.visible[row];
                if common.is_empty() {
                    return [own.clone(), 0..0];
                }
                [own.start..common.start, common.end..own.end]
            };
            for row in rows.start..=last {
                self.add_values(call, row..row + 1, alone(row)[0].clone(), outputs);
            }
            self.add_values(call, rows.clone(), common.clone(), outputs);
            for row in rows.start..=last {
                self.add_values(call, row..row + 1, alone(row)[1].clone(), outputs);
            }
        }
    }

    fn add_values(&self, call: &Call<'_>, rows: Range<usize>, keys: Range<usize>, outputs: &mut [f32]) {
        let (value_stride, panels) = (self.value_stride, &self.value_panels);
        let p = self.scores[rows.start * SCORE_STRIDE..].as_ptr();
        let outputs = &mut outputs[rows.start * value_stride..rows.end * value_stride];
        // Few rows read each value once, so whole value rows are taken in the order they lie in memory; many rows are worth keeping
        // their sums in registers over the whole span.
        let step = if waits_for_memory(rows.len()) { LANES } else { SPAN };
        let mut start = keys.start;
        while start < keys.end {
            let keys = start..keys.end.min((start / step + 1) * step);
            start = keys.end;
            for column in (0..value_stride).step_by(LANES * self.vectors) {
                let vectors = self.vectors.min((value_stride - column) / LANES);
                let sums = outputs[column..].as_mut_ptr();
                macro_rules! body {
                    ($r:literal, $c:literal) => {{
                        let keys = keys.clone();
                        let sum_stride = value_stride;
                        let kernel = WeightedValues::<E, $r, $c> {
                            p,
                            panels,
                            column,
                            value_stride,
                            keys,
                            sums,
                            sum_stride,
                        };
                        dispatch(call.instruction_set, kernel)
                    }};
                }
                with_tile!(rows.len(), vectors, body);
            }
        }
    }
}

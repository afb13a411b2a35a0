//! Where the linear layer's sums go.
use super::{
    simd::{LANES, Lanes},
    threads::SharedOutput,
};
use std::ops::Range;

/// The output of a linear layer, written by panels of columns.
#[derive(Clone, Copy)]
pub(crate) struct LinearOutput<'a> {
    /// `[rows, out_features]`.
    pub(crate) elements: &'a SharedOutput<'a, f32>,
    /// Its row length.
    pub(crate) out_features: usize,
    /// `[out_features]`.
    pub(crate) bias: Option<&'a [f32]>,
}

impl LinearOutput<'_> {
    /// Adds the bias to the sums of at most sixteen columns of a row, and writes them.
    ///
    /// # Safety
    /// No other thread may hold these columns of this row.
    #[inline(always)]
    pub(crate) unsafe fn store<L: Lanes>(&self, lanes: L, row: usize, columns: Range<usize>, sum: L::F) {
        debug_assert!(columns.len() <= LANES);
        let sum = match self.bias {
            Some(bias) => lanes.add(sum, lanes.load_first(&bias[columns.clone()], 0.0)),
            None => sum,
        };
        let start = row * self.out_features;
        // SAFETY: as the caller promises.
        let out = unsafe { self.elements.slice(start + columns.start..start + columns.end) };
        lanes.store_first(out, sum);
    }
}

//! Rows of activations as fixed-point numbers.
use super::FIXED_BLOCK;
use crate::ops::cpu::{
    simd::{Kernel, LANES, Lanes},
    threads::SharedOutput,
};
use std::ops::Range;

/// Memory for fixed-point rows, kept from call to call.
#[derive(Default)]
pub(crate) struct FixedBuffer {
    values: Vec<i16>,
    scales: Vec<f32>,
    sums: Vec<f32>,
}

impl FixedBuffer {
    /// Room for `blocks` blocks of any value: fresh memory costs a page fault every 4 KiB.
    pub(crate) fn reserve(&mut self, blocks: usize) {
        if self.scales.len() < blocks {
            self.values.resize(blocks * FIXED_BLOCK, 0);
            self.scales.resize(blocks, 0.0);
            self.sums.resize(blocks, 0.0);
        }
    }

    /// To be filled by [`Round`].
    pub(crate) fn output(&mut self) -> FixedOutput<'_> {
        FixedOutput {
            values: SharedOutput::new(&mut self.values),
            scales: SharedOutput::new(&mut self.scales),
            sums: SharedOutput::new(&mut self.sums),
        }
    }

    /// The first blocks as rows of `in_features`.
    pub(crate) fn rows(&self, rows: usize, in_features: usize) -> FixedRows<'_> {
        let blocks = rows * in_features / FIXED_BLOCK;
        FixedRows {
            rows,
            in_features,
            values: &self.values[..blocks * FIXED_BLOCK],
            scales: &self.scales[..blocks],
            sums: &self.sums[..blocks],
        }
    }
}

/// Where rounded blocks go.
pub(crate) struct FixedOutput<'a> {
    values: SharedOutput<'a, i16>,
    scales: SharedOutput<'a, f32>,
    sums: SharedOutput<'a, f32>,
}

/// Rows `x = value x scale`.
#[derive(Clone, Copy)]
pub(crate) struct FixedRows<'a> {
    rows: usize,
    in_features: usize,
    values: &'a [i16],
    scales: &'a [f32],
    sums: &'a [f32],
}

/// A row as the kernels walk it.
#[derive(Clone, Copy)]
pub(crate) struct FixedRow {
    /// `in_features` values; a pair fills the halves of an i32.
    pub(crate) pairs: *const i32,
    /// The scale of each block.
    pub(crate) scales: *const f32,
    /// The sum of the values of each block, times its scale.
    pub(crate) sums: *const f32,
}

impl FixedRows<'_> {
    /// Number of rows.
    pub(crate) fn count(&self) -> usize {
        self.rows
    }

    /// A row, or the last one past the end.
    #[inline(always)]
    pub(crate) fn row(&self, index: usize) -> FixedRow {
        let index = index.min(self.rows - 1);
        let blocks = self.in_features / FIXED_BLOCK;
        FixedRow {
            pairs: self.values[index * self.in_features..][..self.in_features].as_ptr().cast(),
            scales: self.scales[index * blocks..][..blocks].as_ptr(),
            sums: self.sums[index * blocks..][..blocks].as_ptr(),
        }
    }
}

/// Rounds blocks of `x` to the nearest fixed-point numbers, ties to even.
///
/// The scale is the power of two that brings the block's greatest magnitude into 2^14..2^15. A block whose magnitudes all lie below
/// 2^-112 becomes zero; one with an infinity or a NaN gets NaN as its scale.
pub(crate) struct Round<'a> {
    /// Whole blocks.
    pub(crate) x: &'a [f32],
    /// Which of them. No other thread may hold these blocks of the output.
    pub(crate) blocks: Range<usize>,
    /// Where they go.
    pub(crate) out: &'a FixedOutput<'a>,
}

/// A block's scale and the scale's inverse, from the bits of its greatest magnitude.
fn scale_of(greatest: i32) -> (f32, f32) {
    match (greatest >> 23) as u32 {
        0..15 => (0.0, 0.0),
        255 => (f32::NAN, 0.0),
        exponent => (f32::from_bits((exponent - 14) << 23), f32::from_bits((268 - exponent) << 23)),
    }
}

impl Kernel for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // Adding 1.5 x 2^23 rounds to the nearest integer and leaves it in the low bits of the mantissa.
        const ROUNDER: f32 = 12_582_912.0;
        let magnitude = lanes.splat_int(i32::MAX);
        let (rounder, most) = (lanes.splat(ROUNDER), lanes.splat(f32::from(i16::MAX)));
        let elements = self.blocks.start * FIXED_BLOCK..self.blocks.end * FIXED_BLOCK;
        let x = &self.x[elements.clone()];
        // SAFETY: the field's contract says that nobody else holds these blocks.
        let (values, scales, sums) = unsafe {
            (
                self.out.values.slice(elements),
                self.out.scales.slice(self.blocks.clone()),
                self.out.sums.slice(self.blocks),
            )
        };
        let blocks = x.chunks_exact(FIXED_BLOCK).zip(values.chunks_exact_mut(FIXED_BLOCK));
        for ((x, values), (scale, sum)) in blocks.zip(scales.iter_mut().zip(sums)) {
            // SAFETY: a block is twice sixteen elements.
            let (a, b) = unsafe { (lanes.load(x.as_ptr()), lanes.load(x.as_ptr().add(LANES))) };
            let greatest = lanes.max_int(
                lanes.and_int(lanes.to_bits(a), magnitude),
                lanes.and_int(lanes.to_bits(b), magnitude),
            );
            let (block_scale, inverse) = scale_of(lanes.reduce_max_int(greatest));
            let inverse = lanes.splat(inverse);
            let a = lanes.add(lanes.min(lanes.mul(a, inverse), most), rounder);
            let b = lanes.add(lanes.min(lanes.mul(b, inverse), most), rounder);
            // SAFETY: as above.
            unsafe {
                lanes.store_low_halves(values.as_mut_ptr(), lanes.to_bits(a));
                lanes.store_low_halves(values.as_mut_ptr().add(LANES), lanes.to_bits(b));
            }
            // Integers of sixteen bits: their sum is exact in any order.
            let whole = lanes.reduce_add(lanes.add(lanes.sub(a, rounder), lanes.sub(b, rounder)));
            *scale = block_scale;
            *sum = whole * block_scale;
        }
    }
}

#[cfg(test)]
mod tests;

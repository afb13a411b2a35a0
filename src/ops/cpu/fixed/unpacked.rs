//! Panels of quantised weights, unpacked for many rows.
use crate::ops::cpu::{
    panel::{IntegerFormat, Panels, QUAD},
    simd::{Kernel, LANES, Lanes},
};
use std::{marker::PhantomData, ops::Range};

/// A run of panels: integers as pairs of i16, scales and offsets as f32.
pub(crate) struct Unpacked {
    /// `[panels, padded_in / 2, 16]` pairs.
    pub(crate) pairs: Vec<i32>,
    /// `[panels, groups, 16]`.
    pub(crate) scales: Vec<f32>,
    /// As `scales`, or empty where the format has none.
    pub(crate) offsets: Vec<f32>,
}

impl Unpacked {
    /// Room for `panels` panels.
    pub(crate) fn new<F: IntegerFormat>(panels: usize, padded_in: usize) -> Self {
        let groups = panels * padded_in / F::GROUP * LANES;
        Self {
            pairs: vec![0; panels * padded_in / 2 * LANES],
            scales: vec![0.0; groups],
            offsets: if F::OFFSETS { vec![0.0; groups] } else { Vec::new() },
        }
    }
}

/// Unpacks a run of panels.
pub(crate) struct Unpack<'a, F> {
    /// The matrix.
    pub(crate) panels: Panels<'a>,
    /// Which panels.
    pub(crate) range: Range<usize>,
    /// Where to; it has room for them.
    pub(crate) out: &'a mut Unpacked,
    /// How they lie.
    pub(crate) format: PhantomData<F>,
}

impl<F: IntegerFormat> Kernel for Unpack<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let groups = self.panels.padded_in / F::GROUP;
        let count = self.range.len();
        let pairs = &mut self.out.pairs[..count * self.panels.padded_in / 2 * LANES];
        let scales = &mut self.out.scales[..count * groups * LANES];
        let (mut pairs, mut scales) = (pairs.as_mut_ptr(), scales.as_mut_ptr());
        let offsets = if F::OFFSETS { count * groups * LANES } else { 0 };
        let mut offsets = self.out.offsets[..offsets].as_mut_ptr();
        for index in self.range {
            let panel = self.panels.panel(index);
            for group in 0..groups {
                // SAFETY: the panel holds `padded_in / GROUP` groups, and the slices above have room for all their elements.
                unsafe {
                    let group = F::group(lanes, panel, group);
                    lanes.store(scales, group.scale);
                    scales = scales.add(LANES);
                    if F::OFFSETS {
                        lanes.store(offsets, group.offset);
                        offsets = offsets.add(LANES);
                    }
                    for quad in 0..F::GROUP / QUAD {
                        for pair in F::quad(lanes, &group, quad) {
                            lanes.store_int(pairs, pair);
                            pairs = pairs.add(LANES);
                        }
                    }
                }
            }
        }
    }
}

/// Dequantises a panel, k by k: `[padded_in, 16]`.
pub(crate) struct Dequantise<'a, F> {
    /// The matrix.
    pub(crate) panels: Panels<'a>,
    /// Which panel.
    pub(crate) index: usize,
    /// Where to.
    pub(crate) out: &'a mut [f32],
    /// How it lies.
    pub(crate) format: PhantomData<F>,
}

impl<F: IntegerFormat> Kernel for Dequantise<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let panel = self.panels.panel(self.index);
        let mut out = self.out[..self.panels.padded_in * LANES].as_mut_ptr();
        for group in 0..self.panels.padded_in / F::GROUP {
            // SAFETY: the panel holds `padded_in / GROUP` groups, and `out` room for all their elements.
            unsafe {
                let group = F::group(lanes, panel, group);
                for quad in 0..F::GROUP / QUAD {
                    for pair in F::quad(lanes, &group, quad) {
                        for integer in [lanes.sar_int(lanes.shl_int(pair, 16), 16), lanes.sar_int(pair, 16)] {
                            lanes.store(out, lanes.fma(group.scale, lanes.to_float(integer), group.offset));
                            out = out.add(LANES);
                        }
                    }
                }
            }
        }
    }
}

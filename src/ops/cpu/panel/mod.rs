//! Weights in panels of sixteen output columns.
//!
//! A panel holds sixteen consecutive rows of the file's `[out, in]` matrix, k by k, so that one vector load brings the same k of
//! sixteen outputs. Quantised weights keep their bits; scales stand beside them as the file's f16 or integers. Each format has
//! one formula through which every kernel reads weights: [`FloatFormat::quad`] or [`IntegerFormat::quad`].
mod block32;
mod float;
mod layout;
mod mxfp4;
mod superblock;
#[cfg(test)]
pub(crate) mod tests;

use super::simd::{LANES, Lanes};
use crate::weights::WeightDtype;

/// Number of k that a format reads at once.
pub(crate) const QUAD: usize = 4;

/// How one weight type lies in files and in panels.
pub(crate) trait PanelFormat: Send + Sync + 'static {
    /// Consecutive k of a block: the least that is packed. A multiple of [`QUAD`].
    const BLOCK: usize;
    /// Bytes of a block of one row in the file.
    const FILE_BYTES: usize;
    /// Bytes of a block of sixteen columns in the panel: a multiple of 16.
    const PANEL_BYTES: usize;

    /// Repacks one block of sixteen rows into `panel`, which is zero before.
    ///
    /// Each row has [`Self::FILE_BYTES`]; a float format's last block may have fewer, and its missing k stay zero.
    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]);
}

/// A format whose weights are multiplied as f32: plain floats, and MXFP4.
pub(crate) trait FloatFormat: PanelFormat {
    /// The weights of four consecutive k of sixteen columns, quad `quad` of the panel.
    ///
    /// # Safety
    /// `panel` must point to a whole panel that has this quad.
    unsafe fn quad<L: Lanes>(lanes: L, panel: *const u8, quad: usize) -> [L::F; QUAD];
}

/// A format of small integers q under scales: w = scale x q + offset.
pub(crate) trait IntegerFormat: PanelFormat {
    /// Consecutive k that share scale and offset: [`FIXED_BLOCK`] or a divisor of it, a multiple of [`QUAD`].
    ///
    /// [`FIXED_BLOCK`]: crate::ops::cpu::fixed::FIXED_BLOCK
    const GROUP: usize;
    /// Whether there are offsets; else they are zero.
    const OFFSETS: bool;

    /// What the k of a group share.
    ///
    /// # Safety
    /// `panel` must point to a whole panel that has this group.
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L>;

    /// The integers, at most 8 bits with their sign, of four consecutive k of sixteen columns, quad `quad` of the group: a
    /// column's first two in the halves of one 32-bit lane (the lower k in the low half), the other two in the second's.
    ///
    /// # Safety
    /// `group` must come from [`Self::group`] on a panel that still lives, and `quad` lie in it.
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2];
}

/// Where a group's integers lie, and what they share.
#[derive(Clone, Copy)]
pub(crate) struct Group<L: Lanes> {
    /// The group's elements, or their low four bits.
    low: *const u8,
    /// Their higher bits, where a format parts them.
    high: *const u8,
    /// The columns' scales.
    pub(crate) scale: L::F,
    /// What is added after scaling.
    pub(crate) offset: L::F,
}

/// Calls a generic with the [`PanelFormat`] of a [`WeightDtype`]: either one expression for all, or one for the
/// [`FloatFormat`]s and one for the [`IntegerFormat`]s.
macro_rules! with_format {
    ($dtype:expr, $format:ident => $call:expr) => {
        $crate::ops::cpu::panel::with_format!($dtype, float $format => $call, integer $format => $call)
    };
    ($dtype:expr, float $float:ident => $floats:expr, integer $integer:ident => $integers:expr) => {{
        use $crate::{ops::cpu::panel::formats, weights::WeightDtype};
        match $dtype {
            WeightDtype::F32 => $crate::ops::cpu::panel::with_format!(@ formats::F32, $float => $floats),
            WeightDtype::F16 => $crate::ops::cpu::panel::with_format!(@ formats::F16, $float => $floats),
            WeightDtype::Bf16 => $crate::ops::cpu::panel::with_format!(@ formats::Bf16, $float => $floats),
            WeightDtype::Q4_0 => $crate::ops::cpu::panel::with_format!(@ formats::Q40, $integer => $integers),
            WeightDtype::Q4_1 => $crate::ops::cpu::panel::with_format!(@ formats::Q41, $integer => $integers),
            WeightDtype::Q5_0 => $crate::ops::cpu::panel::with_format!(@ formats::Q50, $integer => $integers),
            WeightDtype::Q8_0 => $crate::ops::cpu::panel::with_format!(@ formats::Q80, $integer => $integers),
            WeightDtype::Mxfp4 => $crate::ops::cpu::panel::with_format!(@ formats::Mxfp4, $float => $floats),
            WeightDtype::Q4K => $crate::ops::cpu::panel::with_format!(@ formats::Q4K, $integer => $integers),
            WeightDtype::Q5K => $crate::ops::cpu::panel::with_format!(@ formats::Q5K, $integer => $integers),
            WeightDtype::Q6K => $crate::ops::cpu::panel::with_format!(@ formats::Q6K, $integer => $integers),
        }
    }};
    (@ $type:ty, $format:ident => $call:expr) => {{
        type $format = $type;
        $call
    }};
}
pub(crate) use with_format;

/// The formats under the names that [`with_format`] uses.
pub(crate) mod formats {
    pub(crate) use super::block32::{Q40, Q41, Q50, Q80};
    pub(crate) use super::float::{Bf16, F16, F32};
    pub(crate) use super::mxfp4::Mxfp4;
    pub(crate) use super::superblock::{Q4K, Q5K, Q6K};
}

/// A packed matrix as the kernels see it.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    /// How the weights lie.
    pub(crate) dtype: WeightDtype,
    /// Output columns; the last panel is filled up with zeros.
    pub(crate) out_features: usize,
    /// Length of the dot product, filled up to whole blocks.
    pub(crate) padded_in: usize,
    /// Bytes a panel.
    pub(crate) panel_bytes: usize,
    /// All panels.
    pub(crate) data: &'a [u8],
}

impl Panels<'_> {
    /// Number of panels.
    pub(crate) fn count(&self) -> usize {
        self.out_features.div_ceil(LANES)
    }

    /// The panel's bytes.
    ///
    /// # Panics
    /// When there is no such panel.
    pub(crate) fn panel(&self, index: usize) -> *const u8 {
        self.data[index * self.panel_bytes..][..self.panel_bytes].as_ptr()
    }

    /// Panels that make a piece of work worth handing out: some 16 KiB.
    pub(crate) fn grain(&self) -> usize {
        (16 * 1024 / self.panel_bytes.max(1)).next_multiple_of(4).max(4)
    }

    /// The output columns of a panel.
    pub(crate) fn columns(&self, index: usize) -> std::ops::Range<usize> {
        index * LANES..self.out_features.min((index + 1) * LANES)
    }
}

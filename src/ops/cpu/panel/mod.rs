//! Weights in panels of sixteen output columns.
//!
//! A panel holds sixteen consecutive rows of the file's `[out, in]` matrix, k by k, so that one vector load brings the same k of
//! sixteen outputs. Quantised weights keep their bits; scales stand beside them as the file's f16 or integers. Each format has
//! one formula, [`PanelFormat::quad`], through which every kernel reads weights: it gives the f32 that the format's reference
//! dequantisation gives.
mod block32;
mod float;
mod layout;
mod superblock;
#[cfg(test)]
pub(crate) mod tests;

use super::simd::{LANES, Lanes};
use crate::weights::WeightDtype;

/// Number of k that [`PanelFormat::quad`] dequantises at once.
pub(crate) const QUAD: usize = 4;

/// How one weight type lies in files and in panels.
pub(crate) trait PanelFormat: Send + Sync + 'static {
    /// Consecutive k of a block: the least that is packed. A multiple of [`Self::GROUP`].
    const BLOCK: usize;
    /// Bytes of a block of one row in the file.
    const FILE_BYTES: usize;
    /// Bytes of a block of sixteen columns in the panel: a multiple of 16.
    const PANEL_BYTES: usize;
    /// Consecutive k that share their scales: a multiple of [`QUAD`].
    const GROUP: usize;

    /// Repacks one block of sixteen rows into `panel`, which is zero before.
    ///
    /// Each row has [`Self::FILE_BYTES`]; a float format's last block may have fewer, and its missing k stay zero.
    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]);

    /// What the k of a group share.
    ///
    /// # Safety
    /// `panel` must point to a whole panel that has this group.
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L>;

    /// The weights of four consecutive k of sixteen columns, quad `quad` of the group.
    ///
    /// # Safety
    /// `group` must come from [`Self::group`] on a panel that still lives, and `quad` lie in it.
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::F; QUAD];
}

/// Where a group's weights lie, and what they share.
#[derive(Clone, Copy)]
pub(crate) struct Group<L: Lanes> {
    /// The group's elements, or their low four bits.
    low: *const u8,
    /// Their higher bits, where a format parts them.
    high: *const u8,
    /// The columns' scales.
    scale: L::F,
    /// What is added after scaling.
    offset: L::F,
}

/// Calls the generic `$call` with the [`PanelFormat`] of a [`WeightDtype`] as `$format`.
macro_rules! with_format {
    ($dtype:expr, $format:ident => $call:expr) => {{
        use $crate::{ops::cpu::panel::formats, weights::WeightDtype};
        match $dtype {
            WeightDtype::F32 => {
                type $format = formats::F32;
                $call
            }
            WeightDtype::F16 => {
                type $format = formats::F16;
                $call
            }
            WeightDtype::Bf16 => {
                type $format = formats::Bf16;
                $call
            }
            WeightDtype::Q4_0 => {
                type $format = formats::Q40;
                $call
            }
            WeightDtype::Q4_1 => {
                type $format = formats::Q41;
                $call
            }
            WeightDtype::Q5_0 => {
                type $format = formats::Q50;
                $call
            }
            WeightDtype::Q8_0 => {
                type $format = formats::Q80;
                $call
            }
            WeightDtype::Q4K => {
                type $format = formats::Q4K;
                $call
            }
            WeightDtype::Q5K => {
                type $format = formats::Q5K;
                $call
            }
            WeightDtype::Q6K => {
                type $format = formats::Q6K;
                $call
            }
        }
    }};
}
pub(crate) use with_format;

/// The formats under the names that [`with_format`] uses.
pub(crate) mod formats {
    pub(crate) use super::block32::{Q40, Q41, Q50, Q80};
    pub(crate) use super::float::{Bf16, F16, F32};
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

    /// The output columns of a panel.
    pub(crate) fn columns(&self, index: usize) -> std::ops::Range<usize> {
        index * LANES..self.out_features.min((index + 1) * LANES)
    }
}

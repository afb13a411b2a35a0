//! [`Mxfp4Experts`]: MXFP4 matrices as gpt-oss publishes them, in two tensors of bytes.
//!
//! 32 elements of a row share a scale of eight bits, a power of two; an element has four bits: sign, two of exponent, one of
//! mantissa. The published tensors keep blocks and scales apart and put neighbouring elements into one byte, the first in
//! its low nibble; ggml's block is the scale, then sixteen bytes, of which byte i holds elements i (low) and i + 16.
//!
//! # Source
//! OCP Microscaling Formats 1.0; `block_mxfp4` of ggml (MIT); the checkpoints of openai/gpt-oss-20b. Read 2026-11.
use super::{Weights, WeightsError};

/// Elements a block.
const BLOCK: usize = 32;
/// Bytes of a block's elements.
const BLOCK_BYTES: usize = BLOCK / 2;

/// The matrices of all experts of a layer: `[experts, out, in]`.
pub struct Mxfp4Experts<'a> {
    /// `[experts, out, in / 32, 16]`.
    blocks: &'a [u8],
    /// `[experts, out, in / 32]`.
    scales: &'a [u8],
    out_features: usize,
    blocks_per_row: usize,
}

impl<'a> Mxfp4Experts<'a> {
    /// Finds `<name>_blocks` and `<name>_scales`.
    ///
    /// # Errors
    /// [`WeightsError::MissingTensor`], [`WeightsError::Dtype`], or [`WeightsError::Shape`], which an `in_features` that is no
    /// multiple of 32 gives too: the blocks then have other numbers than the model's.
    pub fn find(
        weights: &'a Weights,
        name: &str,
        experts: usize,
        out_features: usize,
        in_features: usize,
    ) -> Result<Self, WeightsError> {
        let blocks_per_row = in_features.div_ceil(BLOCK);
        let mut shape = vec![experts, out_features, blocks_per_row, BLOCK_BYTES];
        let blocks = weights.require_bytes(&format!("{name}_blocks"), &shape)?;
        shape.pop();
        let scales = weights.require_bytes(&format!("{name}_scales"), &shape)?;
        Ok(Self { blocks, scales, out_features, blocks_per_row })
    }

    /// The named rows of one expert's matrix, one after another, in ggml's blocks.
    ///
    /// # Panics
    /// When there is no such expert or row.
    pub fn rows(&self, expert: usize, rows: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut out = Vec::new();
        for row in rows {
            let first = (expert * self.out_features + row) * self.blocks_per_row;
            let blocks = first..first + self.blocks_per_row;
            let bytes = &self.blocks[blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES];
            for (pairs, &scale) in bytes.chunks_exact(BLOCK_BYTES).zip(&self.scales[blocks]) {
                let element = |index: usize| pairs[index / 2] >> (4 * (index % 2)) & 15;
                out.push(scale);
                out.extend((0..BLOCK_BYTES).map(|i| element(i) | element(i + BLOCK_BYTES) << 4));
            }
        }
        out
    }
}

//! How quantised elements of one column are spread over a panel.
use super::LANES;

/// Two consecutive k share a byte: the even one in the low nibble. Sixteen columns of such a pair lie side by side.
///
/// Only the low four bits of `quants` are written.
pub(super) fn put_nibbles(panel: &mut [u8], column: usize, quants: &[u8]) {
    for (pair, line) in quants.chunks_exact(2).zip(panel.chunks_exact_mut(LANES)) {
        line[column] = (pair[0] & 15) | (pair[1] & 15) << 4;
    }
}

/// Two consecutive k share a little-endian u32: bit 2 x `column` is bit 4 of the even one, the bit above it that of the odd one.
pub(super) fn put_fifth_bits(panel: &mut [u8], column: usize, quants: &[u8]) {
    for (pair, mask) in quants.chunks_exact(2).zip(panel.chunks_exact_mut(4)) {
        mask[column / 4] |= ((pair[0] >> 4 & 1) | (pair[1] >> 4 & 1) << 1) << (column % 4 * 2);
    }
}

/// Four consecutive k share a byte of bits 4 and 5, the first in the lowest two bits. Sixteen columns lie side by side.
pub(super) fn put_upper_pairs(panel: &mut [u8], column: usize, quants: &[u8]) {
    for (four, line) in quants.chunks_exact(4).zip(panel.chunks_exact_mut(LANES)) {
        line[column] = four.iter().rev().fold(0, |byte, quant| byte << 2 | (quant >> 4 & 3));
    }
}

/// The column's 16-bit number in a line of sixteen.
pub(super) fn put_u16(panel: &mut [u8], column: usize, bytes: &[u8]) {
    panel[2 * column..2 * column + 2].copy_from_slice(bytes);
}

/// Parts `quants`, 32 elements: those of the low nibbles first, then those of the high ones.
pub(super) fn split_nibbles(bytes: &[u8], quants: &mut [u8]) {
    let (first, second) = quants.split_at_mut(bytes.len());
    for ((byte, low), high) in bytes.iter().zip(first).zip(second) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

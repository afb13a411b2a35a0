//! ggml's k-quants: 256 elements under one f16 scale, with integer scales for parts of them (source: ggml's `block_q4_K`,
//! `block_q5_K`, `block_q6_K`).
//!
//! The packed 6-bit scales of Q4_K and Q5_K become bytes (3 % more), so that sixteen of them load at once. The product of the
//! f16 scale and an integer scale is exact in f32, and so is a dequantised weight before its offset.
use super::{
    Group, IntegerFormat, LANES, Lanes, PanelFormat, QUAD,
    block32::{add_fifth_bits, nibble_quad},
    layout::{put_fifth_bits, put_nibbles, put_u16, put_upper_pairs, split_nibbles},
};

const BLOCK: usize = 256;
/// A line of sixteen f16.
const HALVES: usize = 2 * LANES;
/// Elements of Q4_K and Q5_K under one pair of integer scales.
const PART: usize = 32;
/// The low nibbles of a part.
const NIBBLES: usize = PART / 2 * LANES;
/// A u32 of fifth bits for each two k of a part.
const FIFTH_BITS: usize = PART * 2;

/// w = (d x scale) x q - (dmin x minimum), q of 4 bits.
pub(crate) struct Q4K;
/// w = (d x scale) x q - (dmin x minimum), q of 5 bits.
pub(crate) struct Q5K;
/// w = (d x scale) x (q - 32), q of 6 bits; a signed scale every 16 elements.
pub(crate) struct Q6K;

/// The `part`-th 6-bit scale and minimum out of twelve bytes.
fn scale_and_minimum(packed: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        return (packed[part] & 63, packed[part + 4] & 63);
    }
    let low = packed[part + 4];
    (low & 15 | packed[part - 4] >> 6 << 4, low >> 4 | packed[part] >> 6 << 4)
}

/// Bytes of a part of Q4_K (`FIFTHS` = 0) or Q5_K in the panel: scales, minima, fifth bits, nibbles.
const fn part_bytes(fifths: usize) -> usize {
    2 * LANES + fifths + NIBBLES
}

fn pack_parts<const FIFTHS: usize>(rows: &[&[u8]; LANES], panel: &mut [u8]) {
    let (halves, parts) = panel.split_at_mut(2 * HALVES);
    let mut quants = [0; BLOCK];
    for (column, row) in rows.iter().enumerate() {
        put_u16(&mut halves[..HALVES], column, &row[..2]);
        put_u16(&mut halves[HALVES..], column, &row[2..4]);
        let (packed, rest) = row[4..].split_at(12);
        let (fifths, nibbles) = rest.split_at(FIFTHS / 2);
        for (bytes, quants) in nibbles.chunks_exact(PART).zip(quants.chunks_exact_mut(2 * PART)) {
            split_nibbles(bytes, quants);
        }
        for (part, out) in parts.chunks_exact_mut(part_bytes(FIFTHS)).enumerate() {
            let quants = &mut quants[part * PART..][..PART];
            (out[column], out[LANES + column]) = scale_and_minimum(packed, part);
            for (quant, fifth) in quants.iter_mut().zip(fifths) {
                *quant |= (fifth >> part & 1) << 4;
            }
            put_fifth_bits(&mut out[2 * LANES..][..FIFTHS], column, quants);
            put_nibbles(&mut out[2 * LANES + FIFTHS..], column, quants);
        }
    }
}

/// # Safety
/// `panel` must point to a whole panel that has this group.
#[inline(always)]
unsafe fn part_group<L: Lanes, const FIFTHS: usize>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
    const PARTS: usize = BLOCK / PART;
    // SAFETY: the caller promises that the panel has the group.
    unsafe {
        let block = panel.add(group / PARTS * (2 * HALVES + PARTS * part_bytes(FIFTHS)));
        let part = block.add(2 * HALVES + group % PARTS * part_bytes(FIFTHS));
        let scale = lanes.mul(lanes.load_f16(block.cast()), lanes.to_float(lanes.load_u8(part)));
        let minimum = lanes
            .mul(lanes.load_f16(block.add(HALVES).cast()), lanes.to_float(lanes.load_u8(part.add(LANES))));
        let high = part.add(2 * LANES);
        Group { low: high.add(FIFTHS), high, scale, offset: lanes.sub(lanes.splat(0.0), minimum) }
    }
}

impl PanelFormat for Q4K {
    const BLOCK: usize = BLOCK;
    const FILE_BYTES: usize = 144;
    const PANEL_BYTES: usize = 2 * HALVES + BLOCK / PART * part_bytes(0);

    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
        pack_parts::<0>(rows, panel);
    }
}

impl IntegerFormat for Q4K {
    const GROUP: usize = PART;
    const OFFSETS: bool = true;

    #[inline(always)]
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
        // SAFETY: as the caller promises.
        unsafe { part_group::<L, 0>(lanes, panel, group) }
    }

    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2] {
        // SAFETY: as the caller promises.
        unsafe { nibble_quad(lanes, group.low, quad) }
    }
}

impl PanelFormat for Q5K {
    const BLOCK: usize = BLOCK;
    const FILE_BYTES: usize = 176;
    const PANEL_BYTES: usize = 2 * HALVES + BLOCK / PART * part_bytes(FIFTH_BITS);

    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
        pack_parts::<FIFTH_BITS>(rows, panel);
    }
}

impl IntegerFormat for Q5K {
    const GROUP: usize = PART;
    const OFFSETS: bool = true;

    #[inline(always)]
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
        // SAFETY: as the caller promises.
        unsafe { part_group::<L, FIFTH_BITS>(lanes, panel, group) }
    }

    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2] {
        // SAFETY: as the caller promises.
        unsafe { add_fifth_bits(lanes, nibble_quad(lanes, group.low, quad), group.high, quad, 16) }
    }
}

impl Q6K {
    /// Elements under one integer scale.
    const PART: usize = 16;
    /// The low nibbles of a part.
    const NIBBLES: usize = Self::PART / 2 * LANES;
    /// A part: scales, nibbles, upper bits.
    const PART_BYTES: usize = LANES + Self::NIBBLES + Self::PART / 4 * LANES;
}

impl PanelFormat for Q6K {
    const BLOCK: usize = BLOCK;
    const FILE_BYTES: usize = 210;
    const PANEL_BYTES: usize = HALVES + BLOCK / Self::PART * Self::PART_BYTES;

    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
        let (halves, parts) = panel.split_at_mut(HALVES);
        let mut quants = [0; BLOCK];
        for (column, row) in rows.iter().enumerate() {
            let (low, rest) = row.split_at(128);
            let (high, rest) = rest.split_at(64);
            let (scales, scale) = rest.split_at(16);
            put_u16(halves, column, &scale[..2]);
            // Each half of 128 elements: 64 bytes of low nibbles, 32 bytes of four upper pairs each.
            for (index, quant) in quants.iter_mut().enumerate() {
                let (half, within) = (index / 128, index % 128);
                let nibble = low[half * 64 + within % 64] >> (within / 64 * 4) & 15;
                let upper = high[half * 32 + within % 32] >> (within / 32 * 2) & 3;
                *quant = nibble | upper << 4;
            }
            let parts = parts.chunks_exact_mut(Self::PART_BYTES);
            for ((out, quants), scale) in parts.zip(quants.chunks_exact(Self::PART)).zip(scales) {
                out[column] = *scale;
                let (nibbles, upper) = out[LANES..].split_at_mut(Self::NIBBLES);
                put_nibbles(nibbles, column, quants);
                put_upper_pairs(upper, column, quants);
            }
        }
    }
}

impl IntegerFormat for Q6K {
    const GROUP: usize = Self::PART;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
        const PARTS: usize = BLOCK / Q6K::PART;
        // SAFETY: the caller promises that the panel has the group.
        unsafe {
            let block = panel.add(group / PARTS * Self::PANEL_BYTES);
            let part = block.add(HALVES + group % PARTS * Self::PART_BYTES);
            let scale = lanes.mul(lanes.load_f16(block.cast()), lanes.to_float(lanes.load_i8(part.cast())));
            let low = part.add(LANES);
            Group { low, high: low.add(Self::NIBBLES), scale, offset: lanes.splat(0.0) }
        }
    }

    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2] {
        // SAFETY: a quad is two lines of nibbles and one of upper pairs.
        let ([a, b], upper) =
            unsafe { (nibble_quad(lanes, group.low, quad), lanes.load_u8(group.high.add(quad * LANES))) };
        // Bits 4 and 5 of a pair's elements stand at bits 0 and 2 of `upper`, those of the other pair at bits 4 and 6.
        let mask = lanes.splat_int(0x0030_0030);
        let first = lanes.or_int(lanes.shl_int(upper, 4), lanes.shl_int(upper, 18));
        let second = lanes.or_int(upper, lanes.shl_int(upper, 14));
        let zero = lanes.splat_pair(-32);
        [
            lanes.add_pairs(lanes.or_int(a, lanes.and_int(first, mask)), zero),
            lanes.add_pairs(lanes.or_int(b, lanes.and_int(second, mask)), zero),
        ]
    }
}

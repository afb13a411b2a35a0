//! ggml's formats of 32-element blocks, one f16 scale each (source: ggml's `block_q4_0` and its siblings).
use super::{
    Group, IntegerFormat, LANES, Lanes, PanelFormat, QUAD,
    layout::{put_fifth_bits, put_nibbles, put_u16, split_nibbles},
};

const BLOCK: usize = 32;
/// A line of sixteen f16.
const HALVES: usize = 2 * LANES;
/// The low nibbles of a block.
const NIBBLES: usize = BLOCK / 2 * LANES;
/// A u32 of fifth bits for each two k.
const FIFTH_BITS: usize = BLOCK * 2;

/// w = scale x (q - 8), q of 4 bits.
pub(crate) struct Q40;
/// w = scale x q + minimum, q of 4 bits.
pub(crate) struct Q41;
/// w = scale x (q - 16), q of 5 bits.
pub(crate) struct Q50;
/// w = scale x q, q a signed byte.
pub(crate) struct Q80;

/// The low nibbles of a quad.
///
/// # Safety
/// `nibbles` must have the quad.
#[inline(always)]
pub(super) unsafe fn nibble_quad<L: Lanes>(lanes: L, nibbles: *const u8, quad: usize) -> [L::I; QUAD / 2] {
    // SAFETY: a quad is two lines of sixteen bytes.
    let [a, b] = unsafe {
        let from = nibbles.add(quad * QUAD / 2 * LANES);
        [lanes.load_u8(from), lanes.load_u8(from.add(LANES))]
    };
    // Written out: the standard library's array functions are not always inlined, and a call here loses the instruction set.
    [spread_nibbles(lanes, a), spread_nibbles(lanes, b)]
}

/// A byte's nibbles in the halves of its lane: the high one moves from bit 4 to bit 16.
#[inline(always)]
fn spread_nibbles<L: Lanes>(lanes: L, byte: L::I) -> L::I {
    lanes.and_int(lanes.or_int(byte, lanes.shl_int(byte, 12)), lanes.splat_int(0x000f_000f))
}

/// Adds `value` to each element of a quad whose bit in the group's line of fifth bits is set.
///
/// # Safety
/// `masks` must have the quad.
#[inline(always)]
pub(super) unsafe fn add_fifth_bits<L: Lanes>(
    lanes: L,
    quants: [L::I; QUAD / 2],
    masks: *const u8,
    quad: usize,
    value: i16,
) -> [L::I; QUAD / 2] {
    let value = lanes.splat_pair(value);
    let mut out = quants;
    for (index, quant) in out.iter_mut().enumerate() {
        // SAFETY: the caller promises a u32 for each pair of the quad.
        let mask = unsafe { masks.cast::<u32>().add(quad * QUAD / 2 + index).read_unaligned() };
        *quant = lanes.add_pairs_where(*quant, mask, value);
    }
    out
}

impl PanelFormat for Q40 {
    const BLOCK: usize = BLOCK;
    const FILE_BYTES: usize = 18;
    const PANEL_BYTES: usize = HALVES + NIBBLES;

    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
        let (scales, nibbles) = panel.split_at_mut(HALVES);
        let mut quants = [0; BLOCK];
        for (column, row) in rows.iter().enumerate() {
            put_u16(scales, column, &row[..2]);
            split_nibbles(&row[2..18], &mut quants);
            put_nibbles(nibbles, column, &quants);
        }
    }
}

impl IntegerFormat for Q40 {
    const GROUP: usize = BLOCK;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
        // SAFETY: the caller promises that the panel has the group.
        unsafe {
            let block = panel.add(group * Self::PANEL_BYTES);
            let low = block.add(HALVES);
            Group { low, high: low, scale: lanes.load_f16(block.cast()), offset: lanes.splat(0.0) }
        }
    }

    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2] {
        // SAFETY: as the caller promises.
        let [a, b] = unsafe { nibble_quad(lanes, group.low, quad) };
        let eight = lanes.splat_pair(-8);
        [lanes.add_pairs(a, eight), lanes.add_pairs(b, eight)]
    }
}

impl PanelFormat for Q41 {
    const BLOCK: usize = BLOCK;
    const FILE_BYTES: usize = 20;
    const PANEL_BYTES: usize = 2 * HALVES + NIBBLES;

    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
        let (scales, rest) = panel.split_at_mut(HALVES);
        let (minima, nibbles) = rest.split_at_mut(HALVES);
        let mut quants = [0; BLOCK];
        for (column, row) in rows.iter().enumerate() {
            put_u16(scales, column, &row[..2]);
            put_u16(minima, column, &row[2..4]);
            split_nibbles(&row[4..20], &mut quants);
            put_nibbles(nibbles, column, &quants);
        }
    }
}

impl IntegerFormat for Q41 {
    const GROUP: usize = BLOCK;
    const OFFSETS: bool = true;

    #[inline(always)]
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
        // SAFETY: the caller promises that the panel has the group.
        unsafe {
            let block = panel.add(group * Self::PANEL_BYTES);
            let low = block.add(2 * HALVES);
            let offset = lanes.load_f16(block.add(HALVES).cast());
            Group { low, high: low, scale: lanes.load_f16(block.cast()), offset }
        }
    }

    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2] {
        // SAFETY: as the caller promises.
        unsafe { nibble_quad(lanes, group.low, quad) }
    }
}

impl PanelFormat for Q50 {
    const BLOCK: usize = BLOCK;
    const FILE_BYTES: usize = 22;
    const PANEL_BYTES: usize = HALVES + FIFTH_BITS + NIBBLES;

    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
        let (scales, rest) = panel.split_at_mut(HALVES);
        let (masks, nibbles) = rest.split_at_mut(FIFTH_BITS);
        let mut quants = [0; BLOCK];
        for (column, row) in rows.iter().enumerate() {
            put_u16(scales, column, &row[..2]);
            split_nibbles(&row[6..22], &mut quants);
            // The mask marks clear bits: those elements are 16 lower.
            for (index, quant) in quants.iter_mut().enumerate() {
                *quant |= (!row[2 + index / 8] >> (index % 8) & 1) << 4;
            }
            put_fifth_bits(masks, column, &quants);
            put_nibbles(nibbles, column, &quants);
        }
    }
}

impl IntegerFormat for Q50 {
    const GROUP: usize = BLOCK;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
        // SAFETY: the caller promises that the panel has the group.
        unsafe {
            let block = panel.add(group * Self::PANEL_BYTES);
            let high = block.add(HALVES);
            let scale = lanes.load_f16(block.cast());
            Group { low: high.add(FIFTH_BITS), high, scale, offset: lanes.splat(0.0) }
        }
    }

    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2] {
        // SAFETY: as the caller promises.
        unsafe { add_fifth_bits(lanes, nibble_quad(lanes, group.low, quad), group.high, quad, -16) }
    }
}

impl PanelFormat for Q80 {
    const BLOCK: usize = BLOCK;
    const FILE_BYTES: usize = 34;
    const PANEL_BYTES: usize = HALVES + BLOCK * LANES;

    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
        let (scales, quants) = panel.split_at_mut(HALVES);
        for (column, row) in rows.iter().enumerate() {
            put_u16(scales, column, &row[..2]);
        }
        // Line by line, so that writes run in one direction.
        let rows = rows.map(|row| &row[2..2 + BLOCK]);
        for (pair, line) in quants.chunks_exact_mut(2 * LANES).enumerate() {
            for (quants, row) in line.chunks_exact_mut(2).zip(rows) {
                quants.copy_from_slice(&row[2 * pair..2 * pair + 2]);
            }
        }
    }
}

impl IntegerFormat for Q80 {
    const GROUP: usize = BLOCK;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
        // SAFETY: the caller promises that the panel has the group.
        unsafe {
            let block = panel.add(group * Self::PANEL_BYTES);
            let low = block.add(HALVES);
            Group { low, high: low, scale: lanes.load_f16(block.cast()), offset: lanes.splat(0.0) }
        }
    }

    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2] {
        let from = group.low.cast::<i8>();
        // SAFETY: a quad is two lines of thirty-two bytes.
        unsafe {
            let from = from.add(quad * QUAD * LANES);
            [lanes.load_i8_pairs(from), lanes.load_i8_pairs(from.add(2 * LANES))]
        }
    }
}

//! MXFP4: 32-element blocks of four-bit floats under one power of two (source: ggml's `block_mxfp4`; OCP Microscaling
//! Formats 1.0).
use super::{
    Group, IntegerFormat, LANES, Lanes, PanelFormat, QUAD,
    layout::{put_nibbles, split_nibbles},
};

const BLOCK: usize = 32;

/// Twice the elements by their four bits: sign, two bits of exponent, one of mantissa.
static DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// w = scale x q, q twice the element, scale half its block's.
pub(crate) struct Mxfp4;

impl PanelFormat for Mxfp4 {
    const BLOCK: usize = BLOCK;
    const FILE_BYTES: usize = 17;
    const PANEL_BYTES: usize = LANES + BLOCK / 2 * LANES;

    fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
        let (scales, nibbles) = panel.split_at_mut(LANES);
        let mut quants = [0; BLOCK];
        for (column, row) in rows.iter().enumerate() {
            scales[column] = row[0];
            split_nibbles(&row[1..17], &mut quants);
            put_nibbles(nibbles, column, &quants);
        }
    }
}

impl IntegerFormat for Mxfp4 {
    const GROUP: usize = BLOCK;
    const OFFSETS: bool = false;

    #[inline(always)]
    unsafe fn group<L: Lanes>(lanes: L, panel: *const u8, group: usize) -> Group<L> {
        // SAFETY: the caller promises that the panel has the group.
        let (exponent, low) = unsafe {
            let block = panel.add(group * Self::PANEL_BYTES);
            (lanes.load_u8(block), block.add(LANES))
        };
        // 2^(e - 127) / 2 has the exponent bits e - 1. For e below 2 that is no normal number: 2^-128 and 2^-127 have one bit of
        // mantissa, which (e + 1) << 21 is for these two, and less than the other for the rest.
        let normal = lanes.shl_int(lanes.sub_int(exponent, lanes.splat_int(1)), 23);
        let denormal = lanes.shl_int(lanes.add_int(exponent, lanes.splat_int(1)), 21);
        let scale = lanes.from_bits(lanes.max_int(normal, denormal));
        Group { low, high: low, scale, offset: lanes.splat(0.0) }
    }

    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, group: &Group<L>, quad: usize) -> [L::I; QUAD / 2] {
        // SAFETY: a quad is two lines of sixteen bytes.
        unsafe {
            let from = group.low.add(quad * QUAD / 2 * LANES);
            [lanes.look_up_nibbles(from, &DOUBLED), lanes.look_up_nibbles(from.add(LANES), &DOUBLED)]
        }
    }
}

//! MXFP4: 32-element blocks of four-bit floats under one power of two (source: ggml's `block_mxfp4`; OCP Microscaling Formats 1.0).
//!
//! Its products are taken in f32, unlike those of the other quantised formats: the models that have it choose experts by their
//! router's logits, and fixed-point rows moved those far enough to change choices.
use super::{
    FloatFormat, LANES, Lanes, PanelFormat, QUAD,
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

impl FloatFormat for Mxfp4 {
    #[inline(always)]
    unsafe fn quad<L: Lanes>(lanes: L, panel: *const u8, quad: usize) -> [L::F; QUAD] {
        const QUADS: usize = BLOCK / QUAD;
        // SAFETY: the caller promises that the panel has the quad: two lines of sixteen bytes, in a block that begins with scales.
        let (exponent, [a, b]) = unsafe {
            let block = panel.add(quad / QUADS * Self::PANEL_BYTES);
            let from = block.add(LANES + quad % QUADS * QUAD / 2 * LANES);
            let pairs =
                [lanes.look_up_nibbles(from, &DOUBLED), lanes.look_up_nibbles(from.add(LANES), &DOUBLED)];
            (lanes.load_u8(block), pairs)
        };
        let scale = half_of_power(lanes, exponent);
        // Written out: a call to a closure may lose the instruction set.
        [
            lanes.mul(scale, lanes.to_float(low_half(lanes, a))),
            lanes.mul(scale, lanes.to_float(lanes.sar_int(a, 16))),
            lanes.mul(scale, lanes.to_float(low_half(lanes, b))),
            lanes.mul(scale, lanes.to_float(lanes.sar_int(b, 16))),
        ]
    }
}

/// 2^(exponent - 127) / 2.
#[inline(always)]
fn half_of_power<L: Lanes>(lanes: L, exponent: L::I) -> L::F {
    // Its exponent's bits are e - 1. For e below 2 it is no normal number: 2^-128 and 2^-127 have one bit of mantissa, which
    // (e + 1) << 21 is for these two, and less than the other for the rest.
    let normal = lanes.shl_int(lanes.sub_int(exponent, lanes.splat_int(1)), 23);
    let denormal = lanes.shl_int(lanes.add_int(exponent, lanes.splat_int(1)), 21);
    lanes.from_bits(lanes.max_int(normal, denormal))
}

/// The signed low half of each lane.
#[inline(always)]
fn low_half<L: Lanes>(lanes: L, pair: L::I) -> L::I {
    lanes.sar_int(lanes.shl_int(pair, 16), 16)
}

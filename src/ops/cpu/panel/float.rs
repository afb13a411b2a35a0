//! Plain floats, k by k. Four k are a block, so that every kernel steps by whole quads.
use super::{FloatFormat, LANES, Lanes, PanelFormat, QUAD};

/// Little-endian f32.
pub(crate) struct F32;
/// Little-endian IEEE half precision.
pub(crate) struct F16;
/// Little-endian bfloat16.
pub(crate) struct Bf16;

fn pack<const SIZE: usize>(rows: &[&[u8]; LANES], panel: &mut [u8]) {
    for (column, row) in rows.iter().enumerate() {
        for (element, line) in row.chunks_exact(SIZE).zip(panel.chunks_exact_mut(LANES * SIZE)) {
            line[column * SIZE..(column + 1) * SIZE].copy_from_slice(element);
        }
    }
}

macro_rules! float_format {
    ($name:ident, $size:literal, $element:ty, $load:ident) => {
        impl PanelFormat for $name {
            const BLOCK: usize = QUAD;
            const FILE_BYTES: usize = QUAD * $size;
            const PANEL_BYTES: usize = QUAD * $size * LANES;

            fn pack(rows: &[&[u8]; LANES], panel: &mut [u8]) {
                pack::<$size>(rows, panel);
            }
        }

        impl FloatFormat for $name {
            #[inline(always)]
            unsafe fn quad<L: Lanes>(lanes: L, panel: *const u8, quad: usize) -> [L::F; QUAD] {
                // SAFETY: the caller promises that the panel has the quad: four lines of sixteen elements.
                unsafe {
                    let from = panel.add(quad * Self::PANEL_BYTES).cast::<$element>();
                    [
                        lanes.$load(from),
                        lanes.$load(from.add(LANES)),
                        lanes.$load(from.add(2 * LANES)),
                        lanes.$load(from.add(3 * LANES)),
                    ]
                }
            }
        }
    };
}

float_format!(F32, 4, f32, load);
float_format!(F16, 2, u16, load_f16);
float_format!(Bf16, 2, u16, load_bf16);

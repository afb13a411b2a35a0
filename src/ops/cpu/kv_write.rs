//! Scatters keys and values into pages.
use super::kv_element::KvElement;
use crate::ops::{CpuBackend, KvArena, KvDtype, KvPageLayout, kv_arena::PANEL_KEYS};
use float8::F8E4M3;
use half::bf16;

/// Below this many elements one thread does it: waking another takes longer.
const PARALLEL_ELEMENTS: usize = 1 << 15;

/// What one fp8 step of a head is worth: its greatest magnitude / 448, or 1 where that is 0 (or too small for an f32). NaN where the
/// head holds NaN or an infinity, which makes NaN of all that reads it.
fn scale_of(head: &[f32]) -> f32 {
    const GREATEST: f32 = 448.0;
    if !head.iter().all(|x| x.is_finite()) {
        return f32::NAN;
    }
    let scale = head.iter().fold(0.0_f32, |greatest, x| greatest.max(x.abs())) / GREATEST;
    if scale > 0.0 { scale } else { 1.0 }
}

/// The pages of one layer.
struct Pages<'a> {
    base: *mut u8,
    page_stride: usize,
    layout: &'a KvPageLayout,
    layer_in_page: usize,
}

// SAFETY: each piece of the work (one head's keys, or one head's values) writes bytes of its own.
unsafe impl Sync for Pages<'_> {}

/// The caller has checked the layout, the shapes and that every slot lies in the arena.
pub(crate) fn kv_write(
    cpu: &CpuBackend,
    arena: &mut KvArena,
    layout: &KvPageLayout,
    layer_in_page: usize,
    keys: &[f32],
    values: &[f32],
    slots: &[u64],
) {
    let pages = Pages { page_stride: arena.page_stride(), base: arena.base_mut(), layout, layer_in_page };
    let pieces = 2 * layout.kv_heads;
    let grain = if keys.len() < PARALLEL_ELEMENTS { pieces } else { 1 };
    cpu.for_each(pieces, grain, |range| {
        for piece in range {
            let (head, is_key) = (piece / 2, piece % 2 == 0);
            let rows = if is_key { keys } else { values };
            match layout.dtype {
                KvDtype::F32 => pages.write::<f32>(head, is_key, rows, slots),
                KvDtype::Bf16 => pages.write::<bf16>(head, is_key, rows, slots),
                KvDtype::Fp8 => pages.write::<F8E4M3>(head, is_key, rows, slots),
            }
        }
    });
}

impl Pages<'_> {
    fn write<E: KvElement>(&self, head: usize, is_key: bool, rows: &[f32], slots: &[u64]) {
        let layout = self.layout;
        let (block_size, dim) = (layout.block_size, layout.head_dim);
        let offset = layout.head_offset(self.layer_in_page, head);
        let scales = if is_key { layout.key_scales_offset() } else { layout.value_scales_offset() };
        for (row, &slot) in rows.chunks_exact(layout.kv_heads * dim).zip(slots) {
            let row = &row[head * dim..(head + 1) * dim];
            let page = (slot / block_size as u64) as usize;
            let token = (slot % block_size as u64) as usize;
            // SAFETY: the slot was checked to lie in the arena and the layout to fit its pages; the offsets stay in this head's
            // keys or values and their scales, which no other piece of the work touches; pages and all offsets within them but tokens'
            // are multiples of 64 bytes, so that elements and scales are aligned.
            unsafe {
                let start = self.base.add(page * self.page_stride + offset);
                let mut step = 1.0;
                if E::SCALED {
                    step = scale_of(row);
                    start.add(scales).cast::<f32>().add(token).write(step);
                }
                let (target, stride) = if is_key {
                    let panel = token / PANEL_KEYS * PANEL_KEYS * dim + token % PANEL_KEYS;
                    (start.cast::<E>().add(panel), PANEL_KEYS)
                } else {
                    let values = start.add(layout.values_offset()).cast::<E>();
                    (values.add(token * layout.value_stride()), 1)
                };
                for (d, &value) in row.iter().enumerate() {
                    target.add(d * stride).write(E::from_f32(value / step));
                }
            }
        }
    }
}

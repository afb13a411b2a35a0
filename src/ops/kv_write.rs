//! Writing keys and values into pages.
use super::{
    Backend, KvArena, KvPageLayout, OpError, StepList, kv_arena::check_layer, tensors::require_shape,
};
use crate::ops::{cpu, tensors::F32View};
use candle_core::Tensor;

/// Writes keys and values `[tokens, kv_heads, dim]` into slots: `slot_mapping[t] = page * block_size + offset`.
///
/// Where two tokens name one slot, the later one stays; on a device, one of the two. Bf16 pages take each element
/// rounded to nearest even; fp8 pages each element over its head's scale, which [`KvDtype::Fp8`](super::KvDtype::Fp8) says, and the scale.
///
/// # Errors
/// [`OpError::Shape`], [`OpError::Value`] for a layout that the arena's pages cannot hold, [`OpError::Index`] for a slot past the
/// arena's last page; nothing is written then.
pub fn kv_write<'a>(
    backend: &Backend,
    arena: &mut KvArena,
    layout: &KvPageLayout,
    layer_in_page: usize,
    keys: &Tensor,
    values: &Tensor,
    slot_mapping: impl Into<StepList<'a, u64>>,
) -> Result<(), OpError> {
    let slots = slot_mapping.into();
    let slot_mapping = slots.host;
    check_layer(arena, layout, layer_in_page)?;
    let shape = [slot_mapping.len(), layout.kv_heads, layout.head_dim];
    require_shape(keys, "keys", &shape)?;
    require_shape(values, "values", &shape)?;
    let limit = arena.num_pages() as u64 * layout.block_size as u64;
    if let Some(position) = slot_mapping.iter().position(|&slot| slot >= limit) {
        return Err(OpError::Index {
            argument: "slot_mapping",
            position,
            index: slot_mapping[position],
            limit,
        });
    }
    #[cfg(feature = "kernels")]
    if let Backend::Device(device) = backend {
        return super::device::kv_write(device, arena, layout, layer_in_page, (keys, values), slots);
    }
    let cpu = backend.host();
    let (keys, values) = (F32View::of(keys, "keys")?, F32View::of(values, "values")?);
    cpu::kv_write::kv_write(cpu, arena, layout, layer_in_page, &keys, &values, slot_mapping);
    Ok(())
}

#[cfg(test)]
mod tests;

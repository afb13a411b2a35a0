//! Writing keys and values into pages.
use super::{DeviceBackend, attention::kv_layout, memory::Listed, tensors::Input};
use crate::ops::{KvArena, KvPageLayout, OpError, StepList};
use candle_core::Tensor;
use longwick_kernels::{KvPoolMut, KvWrite, Slots};

/// As [`crate::ops::kv_write`], whose arguments are checked; no two slots may be the same.
pub(in crate::ops) fn kv_write(
    device: &DeviceBackend,
    arena: &mut KvArena,
    layout: &KvPageLayout,
    layer_in_page: usize,
    (keys, values): (&Tensor, &Tensor),
    slots: StepList<'_, u64>,
) -> Result<(), OpError> {
    let (keys, values) = (Input::of(device, keys, "keys")?, Input::of(device, values, "values")?);
    let layout = kv_layout(arena, layout, layer_in_page);
    let listed = Listed::of(device, slots)?;
    // SAFETY: the list was sent on the stream that the launch goes to, as it stands on the host.
    let slots = unsafe { Slots::copied(slots.host, listed.view()) };
    let cache = KvPoolMut { pool: arena.pool_mut(), layout: &layout };
    let kernel = KvWrite { keys: keys.view()?, values: values.view()?, slots, cache };
    device.submit(|stream| kernel.launch(stream))
}

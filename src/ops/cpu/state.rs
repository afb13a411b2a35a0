//! One layer's share of the state slots.
use crate::ops::{KvArena, RecurrentBatch};
use std::marker::PhantomData;

/// The slots of an arena, narrowed to one layer. Threads share it; each writes places of its own.
pub(super) struct LayerSlots<'a> {
    base: *mut f32,
    slot_stride: usize,
    num_slots: usize,
    layer_elements: usize,
    arena: PhantomData<&'a mut KvArena>,
}

// SAFETY: access goes through `slice` and `slice_mut`, whose callers promise that no place is written while another thread
// holds it.
unsafe impl Sync for LayerSlots<'_> {}

impl<'a> LayerSlots<'a> {
    /// The layer of a checked batch.
    pub(super) fn new(batch: &RecurrentBatch<'_>, arena: &'a mut KvArena) -> Self {
        let layer_elements = batch.layout.layer_elements();
        let base = arena.slots_mut().cast::<f32>();
        Self {
            // The batch's check made sure that the layer lies within a slot.
            base: base.wrapping_add(batch.layer_in_slot * layer_elements),
            slot_stride: arena.slot_stride() / size_of::<f32>(),
            num_slots: arena.num_slots(),
            layer_elements,
            arena: PhantomData,
        }
    }

    fn place(&self, slot: u32, start: usize, len: usize) -> *mut f32 {
        let within = (slot as usize) < self.num_slots && start + len <= self.layer_elements;
        assert!(within, "slot {slot} of {}, elements {start}..+{len}", self.num_slots);
        self.base.wrapping_add(slot as usize * self.slot_stride + start)
    }

    /// Elements of a slot.
    ///
    /// # Safety
    /// Nobody may write them while the slice lives.
    pub(super) unsafe fn slice(&self, slot: u32, start: usize, len: usize) -> &[f32] {
        // SAFETY: slots start on 64 bytes and hold whole layers of f32, which are zeros at first; the place was checked.
        unsafe { std::slice::from_raw_parts(self.place(slot, start, len), len) }
    }

    /// Elements of a slot, to be written.
    ///
    /// # Safety
    /// Nobody else may hold them while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn slice_mut(&self, slot: u32, start: usize, len: usize) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.place(slot, start, len), len) }
    }
}

//! Work shared out over the backend's threads.
use crate::ops::CpuBackend;
use std::{
    marker::PhantomData,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

impl CpuBackend {
    /// Calls `work` with ranges of at most `grain` items that together are `0..items`, each item once.
    ///
    /// The calling thread works too; ranges are handed out in ascending order to whoever is free.
    /// A result must not depend on which thread computes it, nor on where ranges end.
    pub(crate) fn for_each(&self, items: usize, grain: usize, work: impl Fn(Range<usize>) + Sync) {
        self.for_each_with(items, grain, || (), |(), range| work(range));
    }

    /// As [`Self::for_each`], with scratch that each participating thread makes once.
    pub(crate) fn for_each_with<S>(
        &self,
        items: usize,
        grain: usize,
        scratch: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, Range<usize>) + Sync,
    ) {
        let grain = grain.max(1);
        let next = AtomicUsize::new(0);
        let drain = || {
            let mut own = None;
            loop {
                let start = next.fetch_add(grain, Ordering::Relaxed);
                if start >= items {
                    return;
                }
                work(own.get_or_insert_with(&scratch), start..items.min(start + grain));
            }
        };
        match self.workers() {
            Some(workers) if items > grain => workers.run(&drain),
            _ => drain(),
        }
    }
}

/// A slice that several threads write, each to places of its own.
pub(crate) struct SharedOutput<'a, T> {
    start: *mut T,
    len: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: access goes through `slice`, whose caller promises that no two threads hold the same element.
unsafe impl<T: Send> Sync for SharedOutput<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for SharedOutput<'_, T> {}

impl<'a, T> SharedOutput<'a, T> {
    /// Takes `all` over for the time of the parallel work.
    pub(crate) fn new(all: &'a mut [T]) -> Self {
        Self { start: all.as_mut_ptr(), len: all.len(), lifetime: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Panics
    /// When `range` ends past the slice.
    ///
    /// # Safety
    /// No element of `range` may be borrowed elsewhere while the returned slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: the range lies in the slice, and the caller promises that nobody else holds it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

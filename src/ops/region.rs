//! [`Region`]: items of one size in one anonymous map.
use super::OpError;
use std::ops::Range;

/// Items start on this many bytes, the width of a cache line.
const ALIGNMENT: usize = 64;

/// `count` items of `item_bytes`, numbered in 32 bits and addressed in 64. The system lends memory as items are written.
pub(crate) struct Region {
    map: Option<memmap2::MmapMut>,
    /// What errors call an item.
    item: &'static str,
    item_bytes: usize,
    stride: usize,
    count: usize,
}

impl Region {
    /// No items.
    pub(crate) fn empty(item: &'static str) -> Self {
        Self { map: None, item, item_bytes: 0, stride: 0, count: 0 }
    }

    /// Reserves address space. Errors call the region `what`, and one of its items `item`.
    ///
    /// # Errors
    /// [`OpError::Memory`] when the size overflows, an item is empty, or the system refuses.
    pub(crate) fn new(
        what: &'static str,
        item: &'static str,
        item_bytes: usize,
        count: usize,
    ) -> Result<Self, OpError> {
        let refuse = |reason: &str| OpError::Memory {
            what,
            bytes: (item_bytes as u64).saturating_mul(count as u64),
            reason: format!("{count} {item}s of {item_bytes} bytes: {reason}"),
        };
        if item_bytes == 0 {
            return Err(refuse(&format!("a {item} needs at least one byte")));
        }
        if u32::try_from(count).is_err() {
            return Err(refuse(&format!("{item}s are numbered in 32 bits")));
        }
        let stride =
            item_bytes.checked_next_multiple_of(ALIGNMENT).ok_or_else(|| refuse("the size overflows"))?;
        let total = stride.checked_mul(count).filter(|&bytes| isize::try_from(bytes).is_ok());
        let total = total.ok_or_else(|| refuse("the size overflows"))?;
        let map = if total == 0 {
            None
        } else {
            // No swap is reserved: the region's size is a ceiling, and only items that are written become memory.
            let map = memmap2::MmapOptions::new().len(total).no_reserve_swap().map_anon();
            Some(map.map_err(|error| refuse(&error.to_string()))?)
        };
        Ok(Self { map, item, item_bytes, stride, count })
    }

    /// Number of items.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes an item.
    pub(crate) fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    /// Bytes from one item to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Copies whole items `(from, to)`, in order.
    ///
    /// # Errors
    /// [`OpError::Index`]; nothing is copied then.
    pub(crate) fn copy(&mut self, pairs: &[(u32, u32)]) -> Result<(), OpError> {
        let mut moves = Vec::with_capacity(pairs.len());
        for (position, &(from, to)) in pairs.iter().enumerate() {
            moves.push((self.range(from, position)?, self.range(to, position)?.start));
        }
        if let Some(map) = &mut self.map {
            for (source, target) in moves {
                map.copy_within(source, target);
            }
        }
        Ok(())
    }

    /// The bytes of an item.
    ///
    /// # Errors
    /// [`OpError::Index`].
    pub(crate) fn item(&self, index: u32) -> Result<&[u8], OpError> {
        let range = self.range(index, 0)?;
        Ok(self.map.as_deref().map_or(&[], |bytes| &bytes[range]))
    }

    /// The bytes of an item, to be filled.
    ///
    /// # Errors
    /// [`OpError::Index`].
    pub(crate) fn item_mut(&mut self, index: u32) -> Result<&mut [u8], OpError> {
        let range = self.range(index, 0)?;
        Ok(self.map.as_deref_mut().map_or(&mut [], |bytes| &mut bytes[range]))
    }

    /// Where the first item starts.
    pub(crate) fn base(&self) -> *const u8 {
        self.map.as_deref().map_or(std::ptr::null(), <[u8]>::as_ptr)
    }

    /// As [`Self::base`], for writing.
    pub(crate) fn base_mut(&mut self) -> *mut u8 {
        self.map.as_deref_mut().map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
    }

    /// The bytes of an item that stands at `position` of its list.
    fn range(&self, index: u32, position: usize) -> Result<Range<usize>, OpError> {
        if index as usize >= self.count {
            return Err(OpError::Index {
                argument: self.item,
                position,
                index: u64::from(index),
                limit: self.count as u64,
            });
        }
        let start = index as usize * self.stride;
        Ok(start..start + self.item_bytes)
    }
}

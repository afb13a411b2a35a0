//! [`Region`]: items of one size in one piece of memory.
use super::{Backend, OpError};
use std::{borrow::Cow, ops::Range};

/// Items start on this many bytes, the width of a cache line.
const ALIGNMENT: usize = 64;

/// `count` items of `item_bytes`, numbered in 32 bits and addressed in 64. The system lends memory as items are written.
pub(crate) struct Region {
    memory: Memory,
    /// What errors call an item.
    item: &'static str,
    item_bytes: usize,
    stride: usize,
    count: usize,
}

/// Where the items lie.
enum Memory {
    /// There are none.
    Nowhere,
    /// In the host's memory.
    Host(memmap2::MmapMut),
    /// In a GPU's.
    #[cfg(feature = "cuda")]
    Cuda(super::device::cuda::CudaPool),
}

impl Memory {
    /// The bytes, where they are the host's.
    fn host(&self) -> Option<&[u8]> {
        match self {
            Self::Nowhere => Some(&[]),
            Self::Host(map) => Some(map),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => None,
        }
    }

    /// As [`Self::host`], to be filled.
    fn host_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Nowhere => Some(&mut []),
            Self::Host(map) => Some(map),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => None,
        }
    }
}

impl Region {
    /// No items.
    pub(crate) fn empty(item: &'static str) -> Self {
        Self { memory: Memory::Nowhere, item, item_bytes: 0, stride: 0, count: 0 }
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
        let (stride, total) = size(what, item, item_bytes, count)?;
        let memory = if total == 0 {
            Memory::Nowhere
        } else {
            // No swap is reserved: the region's size is a ceiling, and only items that are written become memory.
            let map = memmap2::MmapOptions::new().len(total).no_reserve_swap().map_anon();
            Memory::Host(map.map_err(|error| refused(what, item, item_bytes, count, error.to_string()))?)
        };
        Ok(Self { memory, item, item_bytes, stride, count })
    }

    /// As [`Self::new`], where the backend's operations read it.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "operations read the host's memory"))]
    pub(crate) fn on(
        backend: &Backend,
        what: &'static str,
        item: &'static str,
        item_bytes: usize,
        count: usize,
    ) -> Result<Self, OpError> {
        #[cfg(feature = "cuda")]
        if let Some(place) = backend.cuda() {
            let (stride, total) = size(what, item, item_bytes, count)?;
            let memory = Memory::Cuda(super::device::cuda::CudaPool::new(place, what, total)?);
            return Ok(Self { memory, item, item_bytes, stride, count });
        }
        Self::new(what, item, item_bytes, count)
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
        match &mut self.memory {
            Memory::Nowhere => {}
            Memory::Host(map) => moves.into_iter().for_each(|(from, to)| map.copy_within(from, to)),
            #[cfg(feature = "cuda")]
            Memory::Cuda(pool) => {
                for (from, to) in moves {
                    pool.copy_within(from, to)?;
                }
            }
        }
        Ok(())
    }

    /// The bytes of an item: those of the host's memory, or a copy of a device's.
    ///
    /// # Errors
    /// [`OpError::Index`]; [`OpError::Driver`].
    pub(crate) fn item(&self, index: u32) -> Result<Cow<'_, [u8]>, OpError> {
        let range = self.range(index, 0)?;
        match &self.memory {
            Memory::Nowhere => Ok(Cow::Borrowed(&[])),
            Memory::Host(map) => Ok(Cow::Borrowed(&map[range])),
            #[cfg(feature = "cuda")]
            Memory::Cuda(pool) => pool.read(range).map(Cow::Owned),
        }
    }

    /// The bytes of an item in the host's memory, to be filled.
    ///
    /// # Errors
    /// [`OpError::Index`]; [`OpError::Device`] where they are a device's.
    pub(crate) fn item_mut(&mut self, index: u32) -> Result<&mut [u8], OpError> {
        let range = self.range(index, 0)?;
        let item = self.item;
        let bytes = self.memory.host_mut().ok_or(OpError::Device { argument: item })?;
        Ok(bytes.get_mut(range).unwrap_or_default())
    }

    /// Fills an item from its start, wherever it lies.
    ///
    /// # Errors
    /// [`OpError::Index`]; [`OpError::Value`] for more bytes than the item has; [`OpError::Driver`].
    pub(crate) fn write(&mut self, index: u32, bytes: &[u8]) -> Result<(), OpError> {
        let range = self.range(index, 0)?;
        if bytes.len() > range.len() {
            let expected = format!("at most the {} bytes of a {}", range.len(), self.item);
            return Err(OpError::Value { argument: "bytes", expected, found: bytes.len().to_string() });
        }
        match &mut self.memory {
            Memory::Nowhere => Ok(()),
            Memory::Host(map) => {
                map[range.start..range.start + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Memory::Cuda(pool) => pool.write(range.start, bytes),
        }
    }

    /// All items as kernels read them.
    #[cfg(feature = "kernels")]
    pub(crate) fn view(&self) -> longwick_kernels::View<'_> {
        match &self.memory {
            #[cfg(feature = "cuda")]
            Memory::Cuda(pool) => pool.view(),
            memory => longwick_kernels::View::on_host(memory.host().unwrap_or_default()),
        }
    }

    /// As [`Self::view`], for writing.
    #[cfg(feature = "kernels")]
    pub(crate) fn view_mut(&mut self) -> longwick_kernels::ViewMut<'_> {
        match &mut self.memory {
            #[cfg(feature = "cuda")]
            Memory::Cuda(pool) => pool.view_mut(),
            memory => longwick_kernels::ViewMut::on_host(memory.host_mut().unwrap_or_default()),
        }
    }

    /// Where the first item starts, in the host's memory.
    pub(crate) fn base(&self) -> *const u8 {
        self.memory.host().map_or(std::ptr::null(), <[u8]>::as_ptr)
    }

    /// As [`Self::base`], for writing.
    pub(crate) fn base_mut(&mut self) -> *mut u8 {
        self.memory.host_mut().map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
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

/// Bytes from one item to the next, and of all.
fn size(
    what: &'static str,
    item: &'static str,
    item_bytes: usize,
    count: usize,
) -> Result<(usize, usize), OpError> {
    let refuse = |reason: &str| refused(what, item, item_bytes, count, reason.to_owned());
    if item_bytes == 0 {
        return Err(refuse(&format!("a {item} needs at least one byte")));
    }
    if u32::try_from(count).is_err() {
        return Err(refuse(&format!("{item}s are numbered in 32 bits")));
    }
    let stride =
        item_bytes.checked_next_multiple_of(ALIGNMENT).ok_or_else(|| refuse("the size overflows"))?;
    let total = stride.checked_mul(count).filter(|&bytes| isize::try_from(bytes).is_ok());
    Ok((stride, total.ok_or_else(|| refuse("the size overflows"))?))
}

fn refused(
    what: &'static str,
    item: &'static str,
    item_bytes: usize,
    count: usize,
    reason: String,
) -> OpError {
    OpError::Memory {
        what,
        bytes: (item_bytes as u64).saturating_mul(count as u64),
        reason: format!("{count} {item}s of {item_bytes} bytes: {reason}"),
    }
}

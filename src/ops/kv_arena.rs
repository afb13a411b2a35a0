//! Pages of cached keys and values: their element types, their layout, and the one byte arena they are drawn from.
use super::{Backend, OpError};
use std::ops::Range;

/// Element type of cached keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvDtype {
    /// 4 bytes.
    F32,
    /// 2 bytes, rounded to nearest even.
    Bf16,
}

impl KvDtype {
    /// Bytes an element.
    pub fn element_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// Keys a panel: a key panel is `[head_dim][16]`, so that sixteen neighbouring keys meet one query element at once.
pub(crate) const PANEL_KEYS: usize = 16;

/// The largest head that attention takes.
pub(crate) const MAX_HEAD_DIM: usize = 512;

/// Pages start on this many bytes, the width of a cache line.
const PAGE_ALIGNMENT: usize = 64;

/// Shape of a group's pages. A page holds `block_size` tokens' keys and values of `layers_per_page` layers.
///
/// # Layout on the CPU
/// Layer by layer, and in a layer head by head:
/// * keys as panels `[block_size / 16][head_dim][16]`: the operand of q.k, with keys across lanes;
/// * then values `[block_size][value_stride]`, `value_stride` being `head_dim` rounded up to 16; the padding is never read into a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvPageLayout {
    /// Tokens a block: a multiple of 16.
    pub block_size: usize,
    /// Layers sharing the page.
    pub layers_per_page: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements a head: a multiple of 8, at most 512.
    pub head_dim: usize,
    /// Element type.
    pub dtype: KvDtype,
}

impl KvPageLayout {
    /// Bytes one page of this layout needs: a multiple of 64 for every layout that [`Self::validate`] accepts.
    pub fn page_bytes(&self) -> usize {
        self.layers_per_page * self.kv_heads * self.head_elements() * self.dtype.element_bytes()
    }

    /// Checks what the operations rely on.
    ///
    /// # Errors
    /// [`OpError::Value`] names the field, its value and the rule it breaks.
    pub fn validate(&self) -> Result<(), OpError> {
        if self.block_size == 0 || !self.block_size.is_multiple_of(PANEL_KEYS) || self.block_size > 1 << 16 {
            return refuse("block_size", self.block_size, "a multiple of 16, at most 65536");
        }
        if self.head_dim == 0 || !self.head_dim.is_multiple_of(8) || self.head_dim > MAX_HEAD_DIM {
            return refuse("head_dim", self.head_dim, "a multiple of 8, at most 512");
        }
        if self.kv_heads == 0 || self.kv_heads > 1 << 12 {
            return refuse("kv_heads", self.kv_heads, "at least 1, at most 4096");
        }
        if self.layers_per_page == 0 || self.layers_per_page > 1 << 12 {
            return refuse("layers_per_page", self.layers_per_page, "at least 1, at most 4096");
        }
        Ok(())
    }

    /// Elements from one value row to the next.
    pub(crate) fn value_stride(&self) -> usize {
        self.head_dim.next_multiple_of(16)
    }

    /// Elements of one head's keys in a page.
    pub(crate) fn key_elements(&self) -> usize {
        self.block_size * self.head_dim
    }

    /// Elements of one head's keys and values in a page.
    fn head_elements(&self) -> usize {
        self.key_elements() + self.block_size * self.value_stride()
    }

    /// Elements from the page's start to the keys of `head` in layer `layer_in_page`; its values follow [`Self::key_elements`] later.
    pub(crate) fn head_offset(&self, layer_in_page: usize, head: usize) -> usize {
        (layer_in_page * self.kv_heads + head) * self.head_elements()
    }
}

/// The one byte arena all groups draw uniform pages from. Untouched pages cost no memory (anonymous map on the CPU), and hold zeros.
pub struct KvArena {
    map: Option<memmap2::MmapMut>,
    page_bytes: usize,
    page_stride: usize,
    num_pages: usize,
}

impl KvArena {
    /// Reserves `num_pages` pages of `page_bytes` (64-bit offsets throughout). Each page starts on 64 bytes.
    ///
    /// # Errors
    /// [`OpError::Memory`] when the size overflows, a page is empty, or the system refuses the address space.
    pub fn new(backend: &Backend, page_bytes: usize, num_pages: usize) -> Result<Self, OpError> {
        let Backend::Cpu(_) = backend;
        let refuse = |reason: &str| OpError::Memory {
            what: "KV arena",
            bytes: (page_bytes as u64).saturating_mul(num_pages as u64),
            reason: format!("{num_pages} pages of {page_bytes} bytes: {reason}"),
        };
        if page_bytes == 0 {
            return Err(refuse("a page needs at least one byte"));
        }
        if u32::try_from(num_pages).is_err() {
            return Err(refuse("pages are numbered in 32 bits"));
        }
        let page_stride = page_bytes
            .checked_next_multiple_of(PAGE_ALIGNMENT)
            .ok_or_else(|| refuse("the size overflows"))?;
        let total = page_stride.checked_mul(num_pages).filter(|&bytes| isize::try_from(bytes).is_ok());
        let total = total.ok_or_else(|| refuse("the size overflows"))?;
        let map = if total == 0 {
            None
        } else {
            // No swap is reserved: the pool's size is a ceiling, and only pages that sequences write become memory.
            let map = memmap2::MmapOptions::new().len(total).no_reserve_swap().map_anon();
            Some(map.map_err(|error| refuse(&error.to_string()))?)
        };
        Ok(Self { map, page_bytes, page_stride, num_pages })
    }

    /// Number of pages.
    pub fn num_pages(&self) -> usize {
        self.num_pages
    }

    /// Bytes a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Copies whole pages `(from, to)`, in order: copy-on-write.
    ///
    /// # Errors
    /// [`OpError::Index`]; nothing is copied then.
    pub fn copy_pages(&mut self, pairs: &[(u32, u32)]) -> Result<(), OpError> {
        let mut moves = Vec::with_capacity(pairs.len());
        for (position, &(from, to)) in pairs.iter().enumerate() {
            moves.push((self.page_range(from, position)?, self.page_range(to, position)?.start));
        }
        if let Some(map) = &mut self.map {
            for (source, target) in moves {
                map.copy_within(source, target);
            }
        }
        Ok(())
    }

    /// The raw bytes of a page (snapshots, tests).
    ///
    /// # Errors
    /// [`OpError::Index`].
    pub fn page(&self, page: u32) -> Result<&[u8], OpError> {
        let range = self.page_range(page, 0)?;
        Ok(self.map.as_deref().map_or(&[], |bytes| &bytes[range]))
    }

    /// The raw bytes of a page, to be filled (snapshots, tests).
    ///
    /// # Errors
    /// [`OpError::Index`].
    pub fn page_mut(&mut self, page: u32) -> Result<&mut [u8], OpError> {
        let range = self.page_range(page, 0)?;
        Ok(self.map.as_deref_mut().map_or(&mut [], |bytes| &mut bytes[range]))
    }

    /// Where the arena starts; page p lies `p * page_stride()` bytes on.
    pub(crate) fn base(&self) -> *const u8 {
        self.map.as_deref().map_or(std::ptr::null(), <[u8]>::as_ptr)
    }

    /// As [`Self::base`], for writing.
    pub(crate) fn base_mut(&mut self) -> *mut u8 {
        self.map.as_deref_mut().map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
    }

    /// Bytes from one page to the next.
    pub(crate) fn page_stride(&self) -> usize {
        self.page_stride
    }

    /// The bytes of `page`, which stands at `position` of its list.
    fn page_range(&self, page: u32, position: usize) -> Result<Range<usize>, OpError> {
        let index = page as usize;
        if index >= self.num_pages {
            return Err(OpError::Index {
                argument: "page",
                position,
                index: u64::from(page),
                limit: self.num_pages as u64,
            });
        }
        let start = index * self.page_stride;
        Ok(start..start + self.page_bytes)
    }
}

/// Checks that a layer of pages of `layout` can be addressed in `arena`.
pub(crate) fn check_layer(
    arena: &KvArena,
    layout: &KvPageLayout,
    layer_in_page: usize,
) -> Result<(), OpError> {
    layout.validate()?;
    if layer_in_page >= layout.layers_per_page {
        return refuse("layer_in_page", layer_in_page, "below layers_per_page");
    }
    if layout.page_bytes() > arena.page_bytes() {
        return refuse("page_bytes", layout.page_bytes(), "at most the arena's page_bytes");
    }
    Ok(())
}

fn refuse(argument: &'static str, found: usize, expected: &str) -> Result<(), OpError> {
    Err(OpError::Value { argument, expected: expected.to_owned(), found: found.to_string() })
}

#[cfg(test)]
mod tests;

//! Pages of cached keys and values: their element types, their layout, and the one byte arena they are drawn from.
use super::{Backend, OpError, region::Region};
use std::{borrow::Cow, fmt, str::FromStr};

/// Element type of cached keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvDtype {
    /// 4 bytes.
    #[default]
    F32,
    /// 2 bytes, rounded to nearest even.
    Bf16,
    /// 1 byte (e4m3), rounded to nearest even: a token's head of keys, or of values, in steps of its own, greatest magnitude / 448 (1
    /// where that is 0). A head with NaN or an infinity in it reads as NaN; with NaN alone, on a device, only there.
    Fp8,
}

impl KvDtype {
    /// Every type, most bytes first.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::Fp8];

    /// The name that options take.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
        }
    }

    /// Bytes an element.
    pub fn element_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
            Self::Fp8 => 1,
        }
    }

    /// Bytes of the scale (f32) of a token's head of keys, or of values; 0 where there is none.
    pub fn scale_bytes(self) -> usize {
        match self {
            Self::F32 | Self::Bf16 => 0,
            Self::Fp8 => 4,
        }
    }
}

impl fmt::Display for KvDtype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for KvDtype {
    type Err = OpError;

    /// # Errors
    /// [`OpError::Value`] lists the names there are.
    fn from_str(text: &str) -> Result<Self, OpError> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| OpError::Value {
            argument: "kv_dtype",
            expected: Self::ALL.map(Self::name).join(", "),
            found: text.to_owned(),
        })
    }
}

/// Keys a panel: a key panel is `[head_dim][16]`, so that sixteen neighbouring keys meet one query element at once.
pub(crate) const PANEL_KEYS: usize = 16;

/// The largest head that attention takes.
pub(crate) const MAX_HEAD_DIM: usize = 512;

/// Shape of a group's pages. A page holds `block_size` tokens' keys and values of `layers_per_page` layers.
///
/// A page takes as many bytes on every backend; a device has heads of multiples of 16 elements, and its own layout, which
/// `device/attention.rs` says.
///
/// # Layout on the CPU
/// Layer by layer, and in a layer head by head:
/// * keys as panels `[block_size / 16][head_dim][16]`: the operand of q.k, with keys across lanes;
/// * then values `[block_size][value_stride]`, `value_stride` being `head_dim` rounded up to 16; the padding is never read into a result;
/// * then, for fp8, the keys' scales `[block_size]` and the values' scales `[block_size]`.
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
        self.layers_per_page * self.kv_heads * self.head_bytes()
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

    /// Bytes from a head's keys to its values.
    pub(crate) fn values_offset(&self) -> usize {
        self.block_size * self.head_dim * self.dtype.element_bytes()
    }

    /// Bytes from a head's keys to the scales of its keys, if it has any.
    pub(crate) fn key_scales_offset(&self) -> usize {
        self.values_offset() + self.block_size * self.value_stride() * self.dtype.element_bytes()
    }

    /// Bytes from a head's keys to the scales of its values, if it has any.
    pub(crate) fn value_scales_offset(&self) -> usize {
        self.key_scales_offset() + self.block_size * self.dtype.scale_bytes()
    }

    /// Bytes of one head in a page.
    pub(crate) fn head_bytes(&self) -> usize {
        self.value_scales_offset() + self.block_size * self.dtype.scale_bytes()
    }

    /// Bytes from the page's start to the keys of `head` in layer `layer_in_page`.
    pub(crate) fn head_offset(&self, layer_in_page: usize, head: usize) -> usize {
        (layer_in_page * self.kv_heads + head) * self.head_bytes()
    }
}

/// The memory of the cache: the one byte arena all groups draw uniform pages from, and beside it the uniform slots that hold
/// recurrent layers' states. Untouched memory costs nothing (anonymous maps on the CPU), and holds zeros.
pub struct KvArena {
    pages: Region,
    slots: Region,
}

impl KvArena {
    /// Reserves `num_pages` pages of `page_bytes` (64-bit offsets throughout). Each page starts on 64 bytes.
    ///
    /// # Errors
    /// [`OpError::Memory`] when the size overflows, a page is empty, or the system refuses the address space.
    pub fn new(backend: &Backend, page_bytes: usize, num_pages: usize) -> Result<Self, OpError> {
        let pages = Region::on(backend, "KV arena", "page", page_bytes, num_pages)?;
        Ok(Self { pages, slots: Region::empty("slot") })
    }

    /// Reserves `num_slots` slots of `slot_bytes` beside the pages. Each slot starts on 64 bytes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_slots(mut self, slot_bytes: usize, num_slots: usize) -> Result<Self, OpError> {
        self.slots = Region::new("state slots", "slot", slot_bytes, num_slots)?;
        Ok(self)
    }

    /// Number of pages.
    pub fn num_pages(&self) -> usize {
        self.pages.count()
    }

    /// Bytes a page.
    pub fn page_bytes(&self) -> usize {
        self.pages.item_bytes()
    }

    /// Copies whole pages `(from, to)`, in order: copy-on-write.
    ///
    /// # Errors
    /// [`OpError::Index`]; nothing is copied then.
    pub fn copy_pages(&mut self, pairs: &[(u32, u32)]) -> Result<(), OpError> {
        self.pages.copy(pairs)
    }

    /// The raw bytes of a page, or a GPU's copied (snapshots, tests).
    ///
    /// # Errors
    /// [`OpError::Index`]; [`OpError::Driver`].
    pub fn page(&self, page: u32) -> Result<Cow<'_, [u8]>, OpError> {
        self.pages.item(page)
    }

    /// Fills a page from its start, wherever it lies (snapshots).
    ///
    /// # Errors
    /// [`OpError::Index`]; [`OpError::Value`] for more bytes than a page has; [`OpError::Driver`].
    pub fn write_page(&mut self, page: u32, bytes: &[u8]) -> Result<(), OpError> {
        self.pages.write(page, bytes)
    }

    /// The raw bytes of a page in the host's memory, to be filled (tests).
    ///
    /// # Errors
    /// [`OpError::Index`]; [`OpError::Device`] where pages lie in a GPU's memory.
    pub fn page_mut(&mut self, page: u32) -> Result<&mut [u8], OpError> {
        self.pages.item_mut(page)
    }

    /// Number of state slots.
    pub fn num_slots(&self) -> usize {
        self.slots.count()
    }

    /// Bytes a state slot.
    pub fn slot_bytes(&self) -> usize {
        self.slots.item_bytes()
    }

    /// Copies whole state slots `(from, to)`, in order: copy-on-write.
    ///
    /// # Errors
    /// [`OpError::Index`]; nothing is copied then.
    pub fn copy_slots(&mut self, pairs: &[(u32, u32)]) -> Result<(), OpError> {
        self.slots.copy(pairs)
    }

    /// The raw bytes of a state slot (snapshots, tests).
    ///
    /// # Errors
    /// [`OpError::Index`].
    pub fn slot(&self, slot: u32) -> Result<Cow<'_, [u8]>, OpError> {
        self.slots.item(slot)
    }

    /// The raw bytes of a state slot, to be filled (snapshots, tests).
    ///
    /// # Errors
    /// [`OpError::Index`].
    pub fn slot_mut(&mut self, slot: u32) -> Result<&mut [u8], OpError> {
        self.slots.item_mut(slot)
    }

    /// Where the pages start; page p lies `p * page_stride()` bytes on.
    pub(crate) fn base(&self) -> *const u8 {
        self.pages.base()
    }

    /// As [`Self::base`], for writing.
    pub(crate) fn base_mut(&mut self) -> *mut u8 {
        self.pages.base_mut()
    }

    /// Bytes from one page to the next.
    pub(crate) fn page_stride(&self) -> usize {
        self.pages.stride()
    }

    /// All pages as kernels read them.
    #[cfg(feature = "kernels")]
    pub(crate) fn pool(&self) -> longwick_kernels::View<'_> {
        self.pages.view()
    }

    /// All pages as kernels write them.
    #[cfg(feature = "kernels")]
    pub(crate) fn pool_mut(&mut self) -> longwick_kernels::ViewMut<'_> {
        self.pages.view_mut()
    }

    /// Where the state slots start; slot s lies `s * slot_stride()` bytes on.
    pub(crate) fn slots_mut(&mut self) -> *mut u8 {
        self.slots.base_mut()
    }

    /// Bytes from one state slot to the next.
    pub(crate) fn slot_stride(&self) -> usize {
        self.slots.stride()
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

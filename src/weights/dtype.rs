//! Element storage: the types the kernels read, and the names of those they do not.
use std::borrow::Cow;

/// How a tensor's elements are stored.
///
/// # Source
/// Block layouts as in ggml's `ggml-common.h` (MIT), read 2026-11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightDtype {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single.
    Bf16,
    /// 32 elements: f16 scale, 4-bit values minus 8.
    Q4_0,
    /// 32 elements: f16 scale and minimum, 4-bit values.
    Q4_1,
    /// 32 elements: f16 scale, 5-bit values minus 16.
    Q5_0,
    /// 32 elements: f16 scale, signed 8-bit values.
    Q8_0,
    /// 32 elements: 8-bit power of two, 4-bit floats (E2M1).
    Mxfp4,
    /// 256 elements: 4-bit values, 6-bit scales and minima for each 32.
    Q4K,
    /// 256 elements: 5-bit values, 6-bit scales and minima for each 32.
    Q5K,
    /// 256 elements: 6-bit values, signed 8-bit scales for each 16.
    Q6K,
}

impl WeightDtype {
    /// Every supported dtype.
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q8_0,
        Self::Mxfp4,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// Elements a block (1 for plain floats, 32 or 256 for quantised types).
    pub fn block_elements(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q8_0 | Self::Mxfp4 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q8_0 => 34,
            Self::Mxfp4 => 17,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// The name the file formats use: ggml's for blocks (`Q4_K`), else `F32`, `F16`, `BF16`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q8_0 => "Q8_0",
            Self::Mxfp4 => "MXFP4",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }
}

impl std::fmt::Display for WeightDtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The storage a header declares. A tensor of unsupported storage does not keep its file from opening: it is
/// refused by name when it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// A dtype the kernels read.
    Supported(WeightDtype),
    /// The format's own name of a dtype they do not (`IQ2_XS`, `U8`).
    Unsupported(Cow<'static, str>),
}

impl Storage {
    /// The format's name of the dtype.
    pub fn name(&self) -> &str {
        match self {
            Self::Supported(dtype) => dtype.name(),
            Self::Unsupported(name) => name,
        }
    }
}

/// A tensor as a header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name on disk.
    pub name: String,
    /// Declared storage.
    pub storage: Storage,
    /// Row-major shape, outermost first.
    pub shape: Vec<usize>,
    /// Where its bytes lie, counted from the start of the file; inside the file, whoever made this value.
    pub range: std::ops::Range<usize>,
}

/// Bytes that `shape` takes in blocks of `block_elements` elements and `block_bytes` bytes, or `None` where a number
/// overflows or blocks do not fill the last dimension. Zero dimensions count as one in the overflow check, so that
/// no product of a part of an accepted shape can overflow either.
pub(super) fn checked_byte_len(shape: &[usize], block_elements: usize, block_bytes: usize) -> Option<usize> {
    let last = shape.last().copied().unwrap_or(1);
    if !last.is_multiple_of(block_elements) {
        return None;
    }
    let extent = shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim.max(1)))?;
    // Half of the address space is what a slice may span, so anything near it is hostile.
    extent.checked_mul(block_bytes).filter(|&n| n <= isize::MAX as usize)?;
    let elements: usize = shape.iter().product();
    Some(elements / block_elements * block_bytes)
}

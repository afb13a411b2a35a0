//! Where one layer's cached keys and values lie in a pool.
use crate::{Dtype, KernelError, View, ViewMut, ffi};

/// Layout of one layer in a pool of blocks. All numbers of bytes are multiples of 16.
///
/// Token t of block b and kv head h begins `keys + b * block_stride + h * head_stride` bytes into the pool, plus t heads' bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvLayout {
    /// Of the cached elements.
    pub dtype: Dtype,
    /// Blocks in the pool.
    pub num_blocks: usize,
    /// Tokens a block: a power of two, at least 16.
    pub block_size: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements a head: a multiple of 16.
    pub head_dim: usize,
    /// Bytes from one block to the next.
    pub block_stride: usize,
    /// Bytes from one head to the next within a block.
    pub head_stride: usize,
    /// Bytes from a block's start to its keys.
    pub keys: usize,
    /// Bytes from a block's start to its values.
    pub values: usize,
    /// fp8 alone: where the scales (f32, one a token and head) lie.
    pub scales: Option<KvScales>,
}

/// Where the scales of an fp8 layer lie; strides over blocks are the layout's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvScales {
    /// Bytes from a block's start to the keys' scales.
    pub keys: usize,
    /// Bytes from a block's start to the values' scales.
    pub values: usize,
    /// Bytes from one head's scales to the next's.
    pub head_stride: usize,
}

impl KvLayout {
    /// A pool of one layer: in each block head by head the keys, then the values, then (fp8) the scales of each.
    pub fn packed(
        dtype: Dtype,
        num_blocks: usize,
        block_size: usize,
        kv_heads: usize,
        head_dim: usize,
    ) -> Self {
        let head_bytes = block_size * head_dim * dtype.bytes();
        let scale_bytes = if dtype == Dtype::Fp8E4m3 { block_size * 4 } else { 0 };
        let head_stride = 2 * (head_bytes + scale_bytes);
        let scales = (scale_bytes > 0).then_some(KvScales {
            keys: 2 * head_bytes,
            values: 2 * head_bytes + scale_bytes,
            head_stride,
        });
        let block_stride = kv_heads * head_stride;
        let (keys, values) = (0, head_bytes);
        Self {
            dtype,
            num_blocks,
            block_size,
            kv_heads,
            head_dim,
            block_stride,
            head_stride,
            keys,
            values,
            scales,
        }
    }

    /// Bytes of the pool.
    pub fn pool_bytes(&self) -> usize {
        self.num_blocks * self.block_stride
    }

    /// Checks that a pool of `pool_bytes` holds the layout and that every access of a kernel stays inside.
    ///
    /// # Errors
    /// [`KernelError`] names the field, the rule and the number.
    pub fn validate(&self, pool_bytes: usize) -> Result<(), KernelError> {
        if matches!(self.dtype, Dtype::U32 | Dtype::U64) {
            let expected = "f32, bf16, f16 or fp8".to_owned();
            return Err(KernelError::Dtype { argument: "layout.dtype", expected, found: self.dtype });
        }
        if self.block_size < 16 || !self.block_size.is_power_of_two() {
            return Err(KernelError::value(
                "layout.block_size",
                "a power of two, at least 16",
                self.block_size,
            ));
        }
        if self.kv_heads == 0 || self.head_dim == 0 || !self.head_dim.is_multiple_of(16) {
            let found = format!("{} heads of {}", self.kv_heads, self.head_dim);
            return Err(KernelError::value("layout.head_dim", "heads of a multiple of 16", found));
        }
        if (self.dtype == Dtype::Fp8E4m3) != self.scales.is_some() {
            return Err(KernelError::value(
                "layout.scales",
                "scales for fp8, and for it alone",
                self.scales.is_some(),
            ));
        }
        let mut parts = vec![(self.keys, self.head_stride, self.head_dim * self.dtype.bytes())];
        parts.push((self.values, self.head_stride, self.head_dim * self.dtype.bytes()));
        if let Some(scales) = &self.scales {
            parts.push((scales.keys, scales.head_stride, 4));
            parts.push((scales.values, scales.head_stride, 4));
        }
        for (start, head_stride, token_bytes) in parts {
            if ![start, head_stride, self.block_stride].iter().all(|bytes| bytes.is_multiple_of(16)) {
                let found = format!("{start}, {head_stride}, {}", self.block_stride);
                return Err(KernelError::value(
                    "layout",
                    "offsets and strides of a multiple of 16 bytes",
                    found,
                ));
            }
            self.check_part(start, head_stride, token_bytes, pool_bytes)?;
        }
        Ok(())
    }

    /// One part (keys, values or scales) must stay within its block, and the blocks within the pool.
    fn check_part(
        &self,
        start: usize,
        head_stride: usize,
        token_bytes: usize,
        pool: usize,
    ) -> Result<(), KernelError> {
        let end = (self.kv_heads - 1)
            .checked_mul(head_stride)
            .zip(self.block_size.checked_mul(token_bytes))
            .and_then(|(heads, tokens)| heads.checked_add(tokens)?.checked_add(start));
        let fits_block = end.is_some_and(|end| end <= self.block_stride);
        if !fits_block || (self.kv_heads > 1 && head_stride < self.block_size * token_bytes) {
            let expected = "a block that holds the heads of keys, values and scales";
            return Err(KernelError::value("layout.block_stride", expected, self.block_stride));
        }
        match self.num_blocks.checked_mul(self.block_stride) {
            Some(bytes) if bytes <= pool && u32::try_from(self.num_blocks).is_ok() => Ok(()),
            _ => {
                let expected = format!("blocks of {} bytes within {pool}", self.block_stride);
                Err(KernelError::value("layout.num_blocks", expected, self.num_blocks))
            }
        }
    }

    pub(crate) fn params(&self, pool: &View<'_>) -> Result<ffi::PagedKv, KernelError> {
        let address = pool.expect("pool", Dtype::Fp8E4m3, pool.len())?;
        self.validate(pool.len())?;
        let element = self.dtype.bytes();
        let scale = |pick: fn(&KvScales) -> usize| {
            self.scales.as_ref().map_or(0, |scales| address + pick(scales) as u64)
        };
        Ok(ffi::PagedKv {
            keys: address + self.keys as u64,
            values: address + self.values as u64,
            key_scales: scale(|scales| scales.keys),
            value_scales: scale(|scales| scales.values),
            block_stride: (self.block_stride / element) as i64,
            head_stride: (self.head_stride / element) as i64,
            scale_block_stride: (self.block_stride / 4) as i64,
            scale_head_stride: self.scales.as_ref().map_or(0, |scales| scales.head_stride / 4) as i64,
            num_blocks: ffi::count("layout.num_blocks", self.num_blocks)?,
            block_size: ffi::count("layout.block_size", self.block_size)?,
            kv_heads: ffi::count("layout.kv_heads", self.kv_heads)?,
            head_dim: ffi::count("layout.head_dim", self.head_dim)?,
            dtype: self.dtype.code(),
            block_shift: self.block_size.trailing_zeros(),
        })
    }
}

/// A pool that kernels read.
#[derive(Debug, Clone, Copy)]
pub struct KvPool<'a> {
    /// Bytes (`u8`).
    pub pool: View<'a>,
    /// What lies in them.
    pub layout: &'a KvLayout,
}

/// A pool that kernels write.
pub struct KvPoolMut<'a> {
    /// Bytes (`u8`).
    pub pool: ViewMut<'a>,
    /// What lies in them.
    pub layout: &'a KvLayout,
}

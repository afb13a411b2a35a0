//! Writes new keys and values into their blocks.
use crate::{Dtype, KernelError, KvPoolMut, Stream, View, ffi, view::expect_float};

/// Where each new token goes: `block * block_size + place in the block`, on the host to be checked and on the device to be used.
#[derive(Debug, Clone, Copy)]
pub struct Slots<'a> {
    host: &'a [u64],
    device: View<'a>,
}

impl<'a> Slots<'a> {
    /// For a stream of the emulator.
    pub fn on_host(slots: &'a [u64]) -> Self {
        Self { host: slots, device: View::on_host(slots) }
    }

    /// # Safety
    /// When the launch runs, `device` must hold what `host` holds.
    pub unsafe fn copied(host: &'a [u64], device: View<'a>) -> Self {
        Self { host, device }
    }
}

/// Writes `keys` and `values` into the pool, rounded to its element type.
///
/// An fp8 head gets a scale of its own, greatest magnitude / 448, written once beside it, so that a cached token never changes.
/// No two slots may be the same.
pub struct KvWrite<'a> {
    /// `[tokens, kv_heads, head_dim]`, f32, bf16 or f16.
    pub keys: View<'a>,
    /// As `keys`.
    pub values: View<'a>,
    /// One a token.
    pub slots: Slots<'a>,
    /// Where they go.
    pub cache: KvPoolMut<'a>,
}

impl KvWrite<'_> {
    /// # Errors
    /// [`KernelError`] names the argument that does not fit, or what the launch ran into.
    pub fn launch(self, stream: &mut Stream) -> Result<(), KernelError> {
        let dtype = expect_float("keys", &self.keys)?;
        let cache = self.cache.layout.params(&self.cache.pool.as_view())?;
        let layout = self.cache.layout;
        let tokens = self.slots.host.len();
        let elements = tokens * layout.kv_heads * layout.head_dim;
        let limit = layout.num_blocks as u64 * layout.block_size as u64;
        if let Some(slot) = self.slots.host.iter().find(|&&slot| slot >= limit) {
            return Err(KernelError::value("slots", format!("below {limit}"), slot));
        }
        let params = ffi::KvWriteParams {
            keys: self.keys.expect("keys", dtype, elements)?,
            values: self.values.expect("values", dtype, elements)?,
            slots: self.slots.device.expect("slots", Dtype::U64, tokens)?,
            cache,
            tokens: ffi::count("slots", tokens)?,
            dtype: dtype.code(),
        };
        // SAFETY: the rows reach over the tokens, and every slot lies in the pool.
        stream.submit("kv_write", |raw| unsafe { ffi::longwick_kv_write(&params, raw) })
    }
}

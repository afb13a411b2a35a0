//! Weight matrices repacked for the backend.
use super::{
    Backend, CpuBackend, OpError,
    cpu::{
        panel::{PanelFormat, Panels, with_format},
        simd::LANES,
        threads::SharedOutput,
    },
};
use crate::weights::{TensorView, WeightDtype};
use memmap2::MmapMut;

/// Anonymous maps from this size on ask for huge pages: decoding streams through all of them.
const HUGE_PAGE_BYTES: usize = 4 << 20;

/// A weight matrix repacked once for the backend; quantised weights stay quantised.
///
/// On the CPU and the emulator: panels of sixteen output features, at most 3 % larger than the file's tensor (plus what fills up
/// the last panel). On CUDA: the file's elements, as candle multiplies by them.
pub struct PackedMatrix {
    dtype: WeightDtype,
    out_features: usize,
    in_features: usize,
    packed: Packed,
}

/// Where and how the weights lie.
enum Packed {
    /// Nowhere: the matrix was only measured.
    Measured(PackedLayout),
    /// In panels, in the host's memory.
    Panels(PackedLayout, MmapMut),
    /// On a GPU.
    #[cfg(feature = "cuda")]
    Cuda(super::device::cuda::CudaMatrix),
}

/// What the panels of a matrix take.
#[derive(Clone, Copy)]
struct PackedLayout {
    padded_in: usize,
    panel_bytes: usize,
    bytes: usize,
}

impl PackedLayout {
    /// `None` where the size overflows the address space.
    fn new<F: PanelFormat>(out_features: usize, in_features: usize) -> Option<Self> {
        let blocks = in_features.div_ceil(F::BLOCK);
        let panel_bytes = blocks.checked_mul(F::PANEL_BYTES)?;
        let bytes = panel_bytes.checked_mul(out_features.div_ceil(LANES))?;
        Some(Self { padded_in: blocks * F::BLOCK, panel_bytes, bytes })
    }
}

impl PackedMatrix {
    /// Packs a `[out, in]` tensor.
    ///
    /// # Errors
    /// [`OpError::WeightData`] when the shape is not two positive numbers, when rows are not whole blocks, or when the data's
    /// length is not what shape and dtype ask for; [`OpError::Memory`].
    pub fn pack(backend: &Backend, tensor: &TensorView<'_>) -> Result<Self, OpError> {
        #[cfg(feature = "cuda")]
        if let Some(place) = backend.cuda() {
            let (out_features, in_features, _) = with_format!(tensor.dtype, F => file_layout::<F>(tensor))?;
            let packed = Packed::Cuda(super::device::cuda::CudaMatrix::new(place, tensor)?);
            return Ok(Self { dtype: tensor.dtype, out_features, in_features, packed });
        }
        let cpu = backend.host();
        with_format!(tensor.dtype, F => Self::pack_as::<F>(cpu, tensor))
    }

    fn pack_as<F: PanelFormat>(cpu: &CpuBackend, tensor: &TensorView<'_>) -> Result<Self, OpError> {
        let (out_features, in_features, row_bytes) = file_layout::<F>(tensor)?;
        let too_large = || refuse(tensor, "the packed size overflows the address space".to_owned());
        let layout = PackedLayout::new::<F>(out_features, in_features).ok_or_else(too_large)?;
        let panel_bytes = layout.panel_bytes;
        let mut data = reserve(layout.bytes)?;
        let out = SharedOutput::new(&mut data);
        cpu.for_each(out_features.div_ceil(LANES), 1, |range| {
            for panel in range {
                // SAFETY: each panel is handed out once, and panels do not overlap.
                let out = unsafe { out.slice(panel * panel_bytes..(panel + 1) * panel_bytes) };
                let rows = panel * LANES..out_features.min((panel + 1) * LANES);
                pack_panel::<F>(&tensor.data[rows.start * row_bytes..rows.end * row_bytes], row_bytes, out);
            }
        });
        let packed = Packed::Panels(layout, data);
        Ok(Self { dtype: tensor.dtype, out_features, in_features, packed })
    }

    /// A `[out, in]` matrix of which the size alone is known, for planning: [`Self::packed_bytes`] is what packing it would
    /// take. It has no elements, and operations must not read it.
    ///
    /// # Errors
    /// [`OpError::Value`] where rows are not whole blocks, or the size overflows.
    pub(crate) fn measured(
        dtype: WeightDtype,
        out_features: usize,
        in_features: usize,
    ) -> Result<Self, OpError> {
        let refused = |expected: String| OpError::Value {
            argument: "shape",
            expected,
            found: format!("[{out_features}, {in_features}]"),
        };
        let unit = dtype.block_elements();
        if !in_features.is_multiple_of(unit) {
            return Err(refused(format!("rows of whole {dtype} blocks of {unit}")));
        }
        let layout = with_format!(dtype, F => PackedLayout::new::<F>(out_features, in_features));
        let layout = layout.ok_or_else(|| refused("a packed size in the address space".to_owned()))?;
        Ok(Self { dtype, out_features, in_features, packed: Packed::Measured(layout) })
    }

    /// Rows of the file's tensor: output features.
    pub fn out_features(&self) -> usize {
        self.out_features
    }

    /// Input features.
    pub fn in_features(&self) -> usize {
        self.in_features
    }

    /// Bytes held in memory.
    pub fn packed_bytes(&self) -> usize {
        match &self.packed {
            Packed::Measured(layout) | Packed::Panels(layout, _) => layout.bytes,
            #[cfg(feature = "cuda")]
            Packed::Cuda(matrix) => matrix.bytes(),
        }
    }

    /// As the CPU's kernels see it.
    ///
    /// # Errors
    /// [`OpError::Device`] for a matrix that lies elsewhere, or nowhere.
    pub(super) fn panels(&self) -> Result<Panels<'_>, OpError> {
        match &self.packed {
            Packed::Panels(layout, data) => Ok(Panels {
                dtype: self.dtype,
                out_features: self.out_features,
                padded_in: layout.padded_in,
                panel_bytes: layout.panel_bytes,
                data,
            }),
            _ => Err(OpError::Device { argument: "weight" }),
        }
    }

    /// As candle multiplies by it, where it lies on a GPU.
    #[cfg(feature = "cuda")]
    pub(super) fn on_cuda(&self) -> Option<&super::device::cuda::CudaMatrix> {
        match &self.packed {
            Packed::Cuda(matrix) => Some(matrix),
            _ => None,
        }
    }
}

/// Repacks up to sixteen rows of the file; rows that are missing become zeros.
fn pack_panel<F: PanelFormat>(rows: &[u8], row_bytes: usize, out: &mut [u8]) {
    let missing = vec![0; F::FILE_BYTES];
    for (block, out) in out.chunks_exact_mut(F::PANEL_BYTES).enumerate() {
        let start = block * F::FILE_BYTES;
        let end = row_bytes.min(start + F::FILE_BYTES);
        let mut blocks: [&[u8]; LANES] = [&missing[..end - start]; LANES];
        for (block, row) in blocks.iter_mut().zip(rows.chunks_exact(row_bytes)) {
            *block = &row[start..end];
        }
        F::pack(&blocks, out);
    }
}

/// Checks that shape, dtype and data agree: output features, input features, bytes a row.
fn file_layout<F: PanelFormat>(tensor: &TensorView<'_>) -> Result<(usize, usize, usize), OpError> {
    let [out_features, in_features] = tensor.shape[..] else {
        return Err(refuse(tensor, format!("a matrix has 2 dimensions, found {}", tensor.shape.len())));
    };
    if out_features == 0 || in_features == 0 {
        return Err(refuse(tensor, "a matrix has at least one row and one column".to_owned()));
    }
    // Floats may end anywhere; a quantised row is whole blocks.
    let unit = match tensor.dtype {
        WeightDtype::F32 | WeightDtype::F16 | WeightDtype::Bf16 => 1,
        _ => F::BLOCK,
    };
    if !in_features.is_multiple_of(unit) {
        return Err(refuse(tensor, format!("rows of {in_features} elements are not whole blocks of {unit}")));
    }
    let row_bytes = (in_features / unit).checked_mul(F::FILE_BYTES / (F::BLOCK / unit));
    let expected = row_bytes.and_then(|row_bytes| row_bytes.checked_mul(out_features));
    match (row_bytes, expected) {
        (Some(row_bytes), Some(expected)) if expected == tensor.data.len() => {
            Ok((out_features, in_features, row_bytes))
        }
        (_, Some(expected)) => {
            Err(refuse(tensor, format!("expected {expected} bytes, found {}", tensor.data.len())))
        }
        _ => Err(refuse(tensor, format!("the shape overflows, found {} bytes", tensor.data.len()))),
    }
}

fn refuse(tensor: &TensorView<'_>, reason: String) -> OpError {
    OpError::WeightData {
        name: tensor.name.to_owned(),
        dtype: format!("{:?}", tensor.dtype),
        shape: tensor.shape.clone(),
        reason,
    }
}

/// Zeroed memory whose pages are touched only by those who write them.
fn reserve(bytes: usize) -> Result<MmapMut, OpError> {
    let refused = |error: std::io::Error| OpError::Memory {
        what: "packed weights",
        bytes: bytes as u64,
        reason: error.to_string(),
    };
    let map = MmapMut::map_anon(bytes).map_err(refused)?;
    #[cfg(target_os = "linux")]
    if bytes >= HUGE_PAGE_BYTES {
        // A kernel without huge pages refuses; small pages are slower, not wrong.
        if let Err(error) = map.advise(memmap2::Advice::HugePage) {
            tracing::debug!(%error, "no huge pages for packed weights");
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests;

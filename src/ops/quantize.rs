//! Float weights to blocks.
use super::{Backend, OpError, cpu::threads::SharedOutput, ggml::ggml_dtype};
use crate::weights::{Quantization, TensorView, WeightDtype};
use candle_core::{Device, Tensor, quantized::QTensor};
use half::{bf16, f16};
use std::sync::Mutex;

/// Elements that a thread quantises at once, so that no matrix is ever there in f32 as a whole.
const ELEMENTS_AT_ONCE: usize = 1 << 16;
/// Consecutive elements that share a scale and a minimum in blocks of 256.
const GROUP: usize = 32;
/// Scales are f16. No weight of a working model comes near its largest number, and beyond it a scale would be infinite.
const LARGEST: f32 = 65504.0;

/// The bytes of a float matrix `[out, in]` in blocks of `format`, as files hold them. Rows do not depend on one another,
/// nor on the number of threads; blocks are those of candle's quantisers.
///
/// # Errors
/// [`OpError::WeightData`] for a tensor that is no matrix of floats, whose rows are not whole blocks, whose bytes are not
/// those of its shape, or that holds a number without an equal in f16's range.
pub fn quantize(
    backend: &Backend,
    tensor: &TensorView<'_>,
    format: Quantization,
) -> Result<Vec<u8>, OpError> {
    let cpu = backend.host();
    let (rows, columns) = layout(tensor, format)?;
    let row_bytes = tensor.data.len() / rows;
    let out_row_bytes = columns / format.dtype().block_elements() * format.dtype().block_bytes();
    let mut blocks = vec![0; rows * out_row_bytes];
    let out = SharedOutput::new(&mut blocks);
    let failure: Mutex<Option<(usize, OpError)>> = Mutex::new(None);
    cpu.for_each(rows, (ELEMENTS_AT_ONCE / columns).max(1), |range| {
        let file_rows = &tensor.data[range.start * row_bytes..range.end * row_bytes];
        // SAFETY: each row is handed out once, and rows do not overlap.
        let out = unsafe { out.slice(range.start * out_row_bytes..range.end * out_row_bytes) };
        if let Err(error) = quantize_rows(tensor, file_rows, range.start, columns, format, out)
            && let Ok(mut failure) = failure.lock()
            && failure.as_ref().is_none_or(|(first, _)| range.start < *first)
        {
            *failure = Some((range.start, error));
        }
    });
    match failure.into_inner() {
        Ok(Some((_, error))) => Err(error),
        _ => Ok(blocks),
    }
}

/// Output and input features.
fn layout(tensor: &TensorView<'_>, format: Quantization) -> Result<(usize, usize), OpError> {
    let [rows, columns] = tensor.shape[..] else {
        return Err(refuse(tensor, format!("a matrix has 2 dimensions, found {}", tensor.shape.len())));
    };
    if tensor.dtype.block_elements() != 1 {
        return Err(refuse(tensor, format!("only floats can be quantised to {format}")));
    }
    if rows == 0 || !format.divides(columns) {
        let unit = format.dtype().block_elements();
        return Err(refuse(tensor, format!("rows of {columns} elements are not whole blocks of {unit}")));
    }
    let expected = rows.checked_mul(columns).and_then(|count| count.checked_mul(tensor.dtype.block_bytes()));
    match expected {
        Some(expected) if expected == tensor.data.len() => Ok((rows, columns)),
        Some(expected) => {
            Err(refuse(tensor, format!("expected {expected} bytes, found {}", tensor.data.len())))
        }
        None => Err(refuse(tensor, format!("the shape overflows, found {} bytes", tensor.data.len()))),
    }
}

/// `out` gets the blocks of `file_rows`, the first of which is row `first` of the tensor.
fn quantize_rows(
    tensor: &TensorView<'_>,
    file_rows: &[u8],
    first: usize,
    columns: usize,
    format: Quantization,
    out: &mut [u8],
) -> Result<(), OpError> {
    let elements = widen(tensor.dtype, file_rows);
    // A NaN is within no bounds.
    if let Some(at) = elements.iter().position(|element| !(-LARGEST..=LARGEST).contains(element)) {
        let (row, column) = (first + at / columns, at % columns);
        let reason = format!("row {row}, column {column} is {}: no block can hold it", elements[at]);
        return Err(refuse(tensor, reason));
    }
    let flat: Vec<usize> = flat_blocks(&elements, format).collect();
    let shape = (elements.len() / columns, columns);
    let floats = Tensor::from_vec(elements, shape, &Device::Cpu)?;
    let ggml = ggml_dtype(format.dtype());
    let ggml = ggml.ok_or_else(|| refuse(tensor, format!("candle has no {format}")))?;
    let quantised = QTensor::quantize(&floats, ggml)?;
    let bytes = quantised.data()?;
    if bytes.len() != out.len() {
        return Err(refuse(tensor, format!("{} bytes of {format} came for {}", bytes.len(), out.len())));
    }
    out.copy_from_slice(&bytes);
    let floats = floats.flatten_all()?;
    let (width, block_bytes) = (format.dtype().block_elements(), format.dtype().block_bytes());
    for block in flat {
        let floats = floats.narrow(0, block * width, width)?.reshape((1, width))?;
        let quantised = QTensor::quantize_imatrix(&floats, &vec![1.0; width], ggml)?;
        out[block * block_bytes..][..block_bytes].copy_from_slice(&quantised.data()?);
    }
    Ok(())
}

/// Blocks with a group of equal numbers, not zeros, of which candle's fit for these two formats makes zeros. Its fit with
/// weights, all of them one, keeps them, but takes eight times as long.
fn flat_blocks(elements: &[f32], format: Quantization) -> impl Iterator<Item = usize> {
    let is_affected = matches!(format, Quantization::Q4K | Quantization::Q5K);
    let is_flat = |group: &[f32]| group[0] != 0.0 && group.iter().all(|x| *x == group[0]);
    let blocks = elements.chunks_exact(format.dtype().block_elements()).enumerate();
    blocks
        .filter(move |(_, block)| is_affected && block.chunks_exact(GROUP).any(is_flat))
        .map(|(index, _)| index)
}

fn widen(dtype: WeightDtype, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        WeightDtype::F16 => halves().map(|half| f16::from_le_bytes(*half).to_f32()).collect(),
        WeightDtype::Bf16 => halves().map(|half| bf16::from_le_bytes(*half).to_f32()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|float| f32::from_le_bytes(*float)).collect(),
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

#[cfg(test)]
mod tests;

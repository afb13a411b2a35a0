//! Rows of an embedding matrix.
use super::{
    Backend, OpError, PackedMatrix,
    cpu::{
        fixed::unpacked::Dequantise,
        float::many_rows::Widen,
        panel::with_format,
        simd::{self, LANES},
        threads::SharedOutput,
    },
    tensors::{check_indices, from_elements},
};
use candle_core::Tensor;
use std::marker::PhantomData;

/// Rows of an embedding matrix: `[ids, in]`, read out of the panels that [`super::linear`] multiplies by, with the same bits.
///
/// # Errors
/// [`OpError::Index`] when an id is not below [`PackedMatrix::out_features`].
pub fn embedding(backend: &Backend, table: &PackedMatrix, ids: &[u32]) -> Result<Tensor, OpError> {
    check_indices("ids", ids, table.out_features())?;
    #[cfg(feature = "cuda")]
    if let Some(matrix) = table.on_cuda() {
        return matrix.embedding(ids);
    }
    let cpu = backend.host();
    let width = table.in_features();
    let panels = table.panels()?;
    let mut elements = vec![0.0; ids.len() * width];
    let out = SharedOutput::new(&mut elements);
    let scratch = || vec![0.0; panels.padded_in * LANES];
    cpu.for_each_with(ids.len(), 16, scratch, |scratch, range| {
        for position in range {
            let (panel, column) = (ids[position] as usize / LANES, ids[position] as usize % LANES);
            let (set, out_panel) = (cpu.instruction_set(), scratch.as_mut_slice());
            with_format!(
                panels.dtype,
                float F => simd::dispatch(
                    set,
                    Widen::<F> { panels, range: panel..panel + 1, out: out_panel, format: PhantomData },
                ),
                integer F => simd::dispatch(
                    set,
                    Dequantise::<F> { panels, index: panel, out: out_panel, format: PhantomData },
                )
            );
            // SAFETY: each position is handed out once, and its row of the output is its own.
            let out = unsafe { out.slice(position * width..(position + 1) * width) };
            for (out, line) in out.iter_mut().zip(scratch.chunks_exact(LANES)) {
                *out = line[column];
            }
        }
    });
    from_elements(elements, (ids.len(), width))
}

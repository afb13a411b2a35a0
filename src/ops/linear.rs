//! The linear layer.
use super::{
    Backend, CpuBackend, InstructionSet, OpError, PackedMatrix,
    cpu::{
        few_rows::{self, FewRows},
        many_rows::{Dequantise, ManyRows, TiledRows, lay_out_tile, tile_panels, tile_rows},
        panel::{PanelFormat, Panels, with_format},
        simd::{self, LANES},
        threads::SharedOutput,
    },
    tensors::{F32View, filled_by, from_elements, matrix_dims, require_shape},
};
use candle_core::Tensor;
use std::{borrow::Cow, marker::PhantomData, ops::Range};

/// `x w^T + bias`.
///
/// Every output element is one chain of fused multiply-adds over ascending k in f32, from zero; then the bias is added. So its
/// bits depend on its row of `x` alone: not on the other rows, nor on threads or instruction set.
///
/// # Shapes
/// * `x`: `[tokens, in]`
/// * `bias`: `[out]`
/// * returns `[tokens, out]`
///
/// # Errors
/// [`OpError::Shape`], [`OpError::UnsupportedDtype`], [`OpError::NotContiguous`] or [`OpError::Device`] names the argument.
pub fn linear(
    backend: &Backend,
    x: &Tensor,
    weight: &PackedMatrix,
    bias: Option<&Tensor>,
) -> Result<Tensor, OpError> {
    let Backend::Cpu(cpu) = backend;
    let (rows, in_features) = matrix_dims(x, "x")?;
    if in_features != weight.in_features() {
        return Err(OpError::Shape {
            argument: "x",
            expected: format!("[tokens, {}]", weight.in_features()),
            found: x.dims().to_vec(),
        });
    }
    if let Some(bias) = bias {
        require_shape(bias, "bias", &[weight.out_features()])?;
    }
    let bias = bias.map(|bias| F32View::of(bias, "bias")).transpose()?;
    let x = F32View::of(x, "x")?;
    let call = Call { cpu, panels: weight.panels(), in_features, bias: bias.as_deref() };
    // SAFETY: the panels cover all columns, and each panel's sums are stored for every row.
    let out = unsafe {
        filled_by(rows * weight.out_features(), |out| {
            with_format!(call.panels.dtype, F => call.run::<F>(&x, rows, out));
        })
    };
    from_elements(out, (rows, weight.out_features()))
}

/// One call's arguments.
struct Call<'a> {
    cpu: &'a CpuBackend,
    panels: Panels<'a>,
    in_features: usize,
    bias: Option<&'a [f32]>,
}

impl Call<'_> {
    fn run<F: PanelFormat>(&self, x: &[f32], rows: usize, out: &mut [f32]) {
        if rows > few_rows::MAX_ROWS {
            return self.many_rows::<F>(x, rows, out);
        }
        if rows > 0 {
            self.few_rows::<F>(&self.pad(x, rows), out);
        }
    }

    /// Rows filled up with zeros to whole blocks. Panels hold zeros there, so a zero is added.
    fn pad<'x>(&self, x: &'x [f32], rows: usize) -> Cow<'x, [f32]> {
        if self.in_features == self.panels.padded_in {
            return Cow::Borrowed(x);
        }
        let mut padded = vec![0.0; rows * self.panels.padded_in];
        for (from, to) in x.chunks_exact(self.in_features).zip(padded.chunks_exact_mut(self.panels.padded_in))
        {
            to[..self.in_features].copy_from_slice(from);
        }
        Cow::Owned(padded)
    }

    fn few_rows<F: PanelFormat>(&self, x: &[f32], out: &mut [f32]) {
        let (panels, bias) = (self.panels, self.bias);
        let out = &SharedOutput::new(out);
        // Each panel, and so each column, is handed out once.
        self.cpu.for_each(panels.count(), few_rows::grain(&panels), |range| {
            let kernel = FewRows::<F> { panels, range, x, bias, out, format: PhantomData };
            simd::dispatch(self.cpu.instruction_set(), kernel);
        });
    }

    fn many_rows<F: PanelFormat>(&self, x: &[f32], rows: usize, out: &mut [f32]) {
        let registers = registers(self.cpu.instruction_set());
        let (tile_rows, tile_panels) = (tile_rows(registers), tile_panels(registers));
        let mut kept = self.cpu.take_rows(rows * self.panels.padded_in);
        let elements = &mut kept[..rows * self.panels.padded_in];
        self.lay_out(x, tile_rows, elements);
        let x = TiledRows { elements, rows, tile_rows };

        let pieces = Pieces::new(
            self.panels.count().div_ceil(tile_panels),
            rows.div_ceil(tile_rows),
            self.cpu.threads(),
        );
        let out = SharedOutput::new(out);
        let scratch =
            || Scratch { held: None, weights: vec![0.0; tile_panels * self.panels.padded_in * LANES] };
        self.cpu.for_each_with(pieces.count(), 1, scratch, |scratch, range| {
            for piece in range {
                let (strip, tiles) = pieces.piece(piece);
                let range = strip * tile_panels..self.panels.count().min((strip + 1) * tile_panels);
                let columns = self.panels.columns(range.start).start..self.panels.columns(range.end - 1).end;
                self.hold::<F>(scratch, range);
                let kernel = ManyRows {
                    x,
                    tiles,
                    weights: &scratch.weights,
                    padded_in: self.panels.padded_in,
                    columns,
                    bias: self.bias,
                    out: &out,
                    out_features: self.panels.out_features,
                };
                simd::dispatch(self.cpu.instruction_set(), kernel);
            }
        });
        self.cpu.keep_rows(kept);
    }

    /// Lays rows out tile by tile.
    fn lay_out(&self, x: &[f32], tile_rows: usize, elements: &mut [f32]) {
        let (from, to) = (tile_rows * self.in_features, tile_rows * self.panels.padded_in);
        let tiles = x.len().div_ceil(from);
        let len = elements.len();
        let elements = SharedOutput::new(elements);
        self.cpu.for_each(tiles, 4, |range| {
            for tile in range {
                // SAFETY: each tile is handed out once, and tiles do not overlap.
                let out = unsafe { elements.slice(tile * to..len.min((tile + 1) * to)) };
                lay_out_tile(&x[tile * from..x.len().min((tile + 1) * from)], self.in_features, out);
            }
        });
    }

    /// Dequantises the panels of `range`, unless the thread's last piece left them there.
    fn hold<F: PanelFormat>(&self, scratch: &mut Scratch, range: Range<usize>) {
        if scratch.held == Some(range.start) {
            return;
        }
        scratch.held = Some(range.start);
        let out = &mut scratch.weights;
        simd::dispatch(
            self.cpu.instruction_set(),
            Dequantise::<F> { panels: self.panels, range, out, format: PhantomData },
        );
    }
}

/// A thread's dequantised panels.
struct Scratch {
    held: Option<usize>,
    weights: Vec<f32>,
}

/// The output parted into strips of columns and runs of row tiles.
struct Pieces {
    strips: usize,
    tiles: usize,
    /// Runs of tiles that each strip is parted into.
    runs: usize,
}

impl Pieces {
    /// Pieces a thread should find, so that none waits long for the last.
    const PER_THREAD: usize = 8;
    /// Tiles that pay for dequantising a strip once more.
    const MIN_TILES: usize = 8;

    fn new(strips: usize, tiles: usize, threads: usize) -> Self {
        let wanted = if threads == 1 { 1 } else { (Self::PER_THREAD * threads).div_ceil(strips) };
        Self { strips, tiles, runs: wanted.min(tiles / Self::MIN_TILES).max(1) }
    }

    fn count(&self) -> usize {
        self.strips * self.runs
    }

    /// The strip and the tiles of a piece. A strip's pieces follow one another.
    fn piece(&self, index: usize) -> (usize, Range<usize>) {
        let run = index % self.runs;
        (index / self.runs, run * self.tiles / self.runs..(run + 1) * self.tiles / self.runs)
    }
}

/// Vector registers of an instruction set, counted in lanes.
fn registers(instruction_set: InstructionSet) -> usize {
    struct Registers;
    impl simd::Kernel for Registers {
        type Output = usize;
        #[inline(always)]
        fn run<L: simd::Lanes>(self, _lanes: L) -> usize {
            L::REGISTERS
        }
    }
    simd::dispatch(instruction_set, Registers)
}

#[cfg(test)]
mod tests;

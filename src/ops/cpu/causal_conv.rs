//! Causal convolution: rows of inputs, then the tails that later steps need.
use super::{
    functions::times_logistic,
    simd::{Kernel, LANES, Lanes, dispatch},
    state::LayerSlots,
    threads::SharedOutput,
};
use crate::ops::{CpuBackend, KvArena, RecurrentBatch, state_layout::STATE_CHUNK, tensors::filled_by};

/// Elements a piece of work: waking another thread takes longer than fewer.
const GRAIN_ELEMENTS: usize = 1 << 14;

/// The caller has checked the batch and the shapes.
pub(crate) fn causal_conv(
    cpu: &CpuBackend,
    x: &[f32],
    weight: &[f32],
    batch: &RecurrentBatch<'_>,
    arena: &mut KvArena,
) -> Vec<f32> {
    let channels = batch.layout.shape.channels();
    let slots = LayerSlots::new(batch, arena);
    let inputs: Vec<Inputs<'_>> =
        (0..batch.sequences.len()).map(|sequence| Inputs::new(x, batch, &slots, sequence)).collect();
    let write = |output: &mut [f32]| {
        let shared = SharedOutput::new(output);
        cpu.for_each(batch.positions.len(), GRAIN_ELEMENTS.div_ceil(channels), |tokens| {
            for token in tokens {
                let sequence = batch.cu_seqlens.partition_point(|&start| start as usize <= token) - 1;
                let row = token - batch.cu_seqlens[sequence] as usize;
                // SAFETY: each token is handed out once.
                let output = unsafe { shared.slice(token * channels..(token + 1) * channels) };
                let inputs = &inputs[sequence];
                dispatch(cpu.instruction_set(), Convolve { inputs, row, weight, output });
            }
        });
    };
    // SAFETY: every token's row is stored.
    let output = unsafe { filled_by(x.len(), write) };
    for (sequence, inputs) in inputs.iter().enumerate() {
        keep_tails(batch, &slots, sequence, inputs);
    }
    output
}

/// A sequence's inputs: the tail that was kept, then the step's rows.
struct Inputs<'a> {
    tail: Vec<f32>,
    rows: &'a [f32],
    channels: usize,
    kernel: usize,
}

impl<'a> Inputs<'a> {
    fn new(x: &'a [f32], batch: &RecurrentBatch<'_>, slots: &LayerSlots<'_>, sequence: usize) -> Self {
        let shape = &batch.layout.shape;
        let (rows, first) = batch.rows(sequence);
        let states = &batch.sequences[sequence];
        // Between two multiples of 64 the tail moves on with the pending tokens.
        let place = match (first.is_multiple_of(STATE_CHUNK), states.source) {
            (true, None) => None,
            (true, Some(source)) => Some((source, shape.state_tail())),
            (false, _) => Some((states.pending, shape.pending_tail())),
        };
        let tail = match place {
            // SAFETY: nobody writes the slots until the tails are kept.
            Some((slot, start)) => unsafe { slots.slice(slot, start, shape.tail()) }.to_vec(),
            None => vec![0.0; shape.tail()],
        };
        let channels = shape.channels();
        let rows = &x[rows.start * channels..rows.end * channels];
        Self { tail, rows, channels, kernel: shape.conv_kernel }
    }

    /// The input that lies `index` rows behind the first that the step's first row needs.
    #[inline(always)]
    fn row(&self, index: usize) -> &[f32] {
        let kept = self.kernel - 1;
        let (from, index) = if index < kept { (&self.tail[..], index) } else { (self.rows, index - kept) };
        &from[index * self.channels..(index + 1) * self.channels]
    }
}

/// Writes the inputs before each target, and before the step's end, to their slots.
fn keep_tails(batch: &RecurrentBatch<'_>, slots: &LayerSlots<'_>, sequence: usize, inputs: &Inputs<'_>) {
    let shape = &batch.layout.shape;
    let (rows, first) = batch.rows(sequence);
    let states = &batch.sequences[sequence];
    let targets =
        states.targets.iter().map(|&(position, slot)| (position as usize, slot, shape.state_tail()));
    let end = (first + rows.len(), states.pending, shape.pending_tail());
    for (position, slot, start) in targets.chain([end]) {
        // SAFETY: the batch was checked: a slot that is written belongs to one sequence alone, and this is one thread.
        let tail = unsafe { slots.slice_mut(slot, start, shape.tail()) };
        for (index, tail) in tail.chunks_exact_mut(inputs.channels).enumerate() {
            tail.copy_from_slice(inputs.row(position - first + index));
        }
    }
}

/// One row of output.
struct Convolve<'a> {
    inputs: &'a Inputs<'a>,
    row: usize,
    /// `[kernel, channels]`.
    weight: &'a [f32],
    output: &'a mut [f32],
}

impl Kernel for Convolve<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let channels = self.inputs.channels;
        for (index, output) in self.output.chunks_mut(LANES).enumerate() {
            let start = index * LANES;
            let end = channels.min(start + LANES);
            let mut sum = l.splat(0.0);
            for j in 0..self.inputs.kernel {
                let x = l.load_first(&self.inputs.row(self.row + j)[start..end], 0.0);
                let weight = l.load_first(&self.weight[j * channels + start..j * channels + end], 0.0);
                sum = l.fma(x, weight, sum);
            }
            l.store_first(output, times_logistic(l, sum, sum));
        }
    }
}

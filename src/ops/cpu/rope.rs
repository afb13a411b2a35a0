//! Rotary position embedding, token by token.
use super::{
    simd::{Kernel, LANES, Lanes, dispatch},
    threads::SharedOutput,
};
use crate::ops::{CpuBackend, RopeLayout, tensors::filled_by};

/// Elements that one piece of work takes, at the least: waking another thread takes longer than fewer.
const GRAIN_ELEMENTS: usize = 1 << 15;
/// Likewise for angles, each of which takes a sine and a cosine.
const GRAIN_ANGLES: usize = 1 << 10;

/// cos and sin, `[tokens, pairs]`.
pub(crate) struct Table<'a> {
    pub(crate) cos: &'a [f32],
    pub(crate) sin: &'a [f32],
    pub(crate) pairs: usize,
    pub(crate) layout: RopeLayout,
}

/// cos and sin of position x inverse frequency, `[positions, frequencies]` each.
pub(crate) fn angles(
    cpu: &CpuBackend,
    inverse_frequencies: &[f32],
    positions: &[u32],
    scaling: f32,
) -> (Vec<f32>, Vec<f32>) {
    let pairs = inverse_frequencies.len();
    let (mut cos, mut sin) = (vec![0.0; positions.len() * pairs], vec![0.0; positions.len() * pairs]);
    let (shared_cos, shared_sin) = (SharedOutput::new(&mut cos), SharedOutput::new(&mut sin));
    cpu.for_each(positions.len(), GRAIN_ANGLES.div_ceil(pairs), |range| {
        let places = range.start * pairs..range.end * pairs;
        // SAFETY: each position is handed out once.
        let (cos, sin) = unsafe { (shared_cos.slice(places.clone()), shared_sin.slice(places)) };
        let rows = cos.chunks_exact_mut(pairs).zip(sin.chunks_exact_mut(pairs));
        for (&position, (cos, sin)) in positions[range].iter().zip(rows) {
            for (&frequency, (cos, sin)) in inverse_frequencies.iter().zip(cos.iter_mut().zip(sin)) {
                let angle = f64::from(position as f32 * frequency);
                *cos = angle.cos() as f32 * scaling;
                *sin = angle.sin() as f32 * scaling;
            }
        }
    });
    (cos, sin)
}

/// `x` is `[tokens, heads, dim]`.
pub(crate) fn rope(cpu: &CpuBackend, x: &[f32], heads: usize, dim: usize, table: &Table<'_>) -> Vec<f32> {
    let row = heads * dim;
    if row == 0 {
        return Vec::new();
    }
    let write = |output: &mut [f32]| {
        let shared = SharedOutput::new(output);
        cpu.for_each(x.len() / row, GRAIN_ELEMENTS.div_ceil(row), |tokens| {
            let elements = tokens.start * row..tokens.end * row;
            // SAFETY: each token is handed out once.
            let rows = unsafe { shared.slice(elements.clone()) };
            rows.copy_from_slice(&x[elements]);
            for (token, heads) in tokens.zip(rows.chunks_exact_mut(row)) {
                let angles = token * table.pairs..(token + 1) * table.pairs;
                let (cos, sin) = (&table.cos[angles.clone()], &table.sin[angles]);
                match table.layout {
                    RopeLayout::HalfRotation => {
                        dispatch(cpu.instruction_set(), RotateHalves { heads, dim, cos, sin })
                    }
                    RopeLayout::Interleaved => rotate_neighbours(heads, dim, cos, sin),
                }
            }
        });
    };
    // SAFETY: `x` is whole tokens, and each token is copied before it is rotated.
    unsafe { filled_by(x.len() / row * row, write) }
}

/// Rotates element i with i + pairs, in every head of a token.
struct RotateHalves<'a> {
    heads: &'a mut [f32],
    dim: usize,
    cos: &'a [f32],
    sin: &'a [f32],
}

impl Kernel for RotateHalves<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let pairs = self.cos.len();
        for head in self.heads.chunks_exact_mut(self.dim) {
            let (first, rest) = head.split_at_mut(pairs);
            let second = &mut rest[..pairs];
            let angles = self.cos.chunks(LANES).zip(self.sin.chunks(LANES));
            for ((a, b), (cos, sin)) in first.chunks_mut(LANES).zip(second.chunks_mut(LANES)).zip(angles) {
                let (cos, sin) = (l.load_first(cos, 0.0), l.load_first(sin, 0.0));
                let (x, y) = (l.load_first(a, 0.0), l.load_first(b, 0.0));
                l.store_first(a, l.sub(l.mul(x, cos), l.mul(y, sin)));
                l.store_first(b, l.add(l.mul(y, cos), l.mul(x, sin)));
            }
        }
    }
}

/// Rotates element 2i with 2i + 1, in every head of a token.
fn rotate_neighbours(heads: &mut [f32], dim: usize, cos: &[f32], sin: &[f32]) {
    for head in heads.chunks_exact_mut(dim) {
        for (pair, (cos, sin)) in head.as_chunks_mut::<2>().0.iter_mut().zip(cos.iter().zip(sin)) {
            let [x, y] = *pair;
            *pair = [x * cos - y * sin, y * cos + x * sin];
        }
    }
}

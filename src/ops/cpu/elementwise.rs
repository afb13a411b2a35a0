//! Operations on one or two elements at the same place.
use super::{
    functions::{normal_tail, tanh, times_logistic},
    simd::{Kernel, LANES, Lanes, dispatch},
    threads::SharedOutput,
};
use crate::ops::{CpuBackend, tensors::filled_by};

/// Elements a piece of work: waking another thread takes longer than fewer.
const GRAIN_ELEMENTS: usize = 1 << 15;

/// A function of two elements.
pub(crate) trait Elementwise: Copy + Sync {
    /// Sixteen places at once. Implementations must be `#[inline(always)]`.
    fn at<L: Lanes>(self, lanes: L, x: L::F, y: L::F) -> L::F;
}

/// x + y.
#[derive(Clone, Copy)]
pub(crate) struct Add;
/// x factor.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) factor: f32,
}
/// silu(x) y.
#[derive(Clone, Copy)]
pub(crate) struct SiluMul;
/// y times the logistic function of x.
#[derive(Clone, Copy)]
pub(crate) struct SigmoidMul;
/// gelu_tanh(x) y.
#[derive(Clone, Copy)]
pub(crate) struct GeluTanhMul;
/// (y + 1) x logistic(alpha x), x at most `limit`, y between `-limit` and `limit`.
#[derive(Clone, Copy)]
pub(crate) struct ClampedSwiglu {
    pub(crate) alpha: f32,
    pub(crate) limit: f32,
}
/// x times the normal distribution below x.
#[derive(Clone, Copy)]
pub(crate) struct Gelu;
/// cap tanh(x / cap).
#[derive(Clone, Copy)]
pub(crate) struct SoftCap {
    pub(crate) cap: f32,
}

impl Elementwise for Add {
    #[inline(always)]
    fn at<L: Lanes>(self, l: L, x: L::F, y: L::F) -> L::F {
        l.add(x, y)
    }
}

impl Elementwise for Scale {
    #[inline(always)]
    fn at<L: Lanes>(self, l: L, x: L::F, _: L::F) -> L::F {
        l.mul(x, l.splat(self.factor))
    }
}

impl Elementwise for SiluMul {
    #[inline(always)]
    fn at<L: Lanes>(self, l: L, x: L::F, y: L::F) -> L::F {
        l.mul(times_logistic(l, x, x), y)
    }
}

impl Elementwise for SigmoidMul {
    #[inline(always)]
    fn at<L: Lanes>(self, l: L, x: L::F, y: L::F) -> L::F {
        times_logistic(l, y, x)
    }
}

impl Elementwise for GeluTanhMul {
    #[inline(always)]
    fn at<L: Lanes>(self, l: L, x: L::F, y: L::F) -> L::F {
        // Twice sqrt(2 / pi), and that times 0.044715.
        let (linear, cubic) = (l.splat(1.595_769_2), l.splat(0.071_354_814));
        let doubled = l.mul(x, l.fma(cubic, l.mul(x, x), linear));
        l.mul(times_logistic(l, x, doubled), y)
    }
}

impl Elementwise for ClampedSwiglu {
    #[inline(always)]
    fn at<L: Lanes>(self, l: L, x: L::F, y: L::F) -> L::F {
        let (above, below) = (l.splat(self.limit), l.splat(-self.limit));
        let gate = l.min(x, above);
        let up = l.max(l.min(y, above), below);
        let glu = times_logistic(l, gate, l.mul(gate, l.splat(self.alpha)));
        l.mul(l.add(up, l.splat(1.0)), glu)
    }
}

impl Elementwise for Gelu {
    #[inline(always)]
    fn at<L: Lanes>(self, l: L, x: L::F, _: L::F) -> L::F {
        let magnitude = l.from_bits(l.and_int(l.to_bits(x), l.splat_int(i32::MAX)));
        let positive = l.max(x, l.splat(0.0));
        l.neg_fma(magnitude, normal_tail(l, magnitude), positive)
    }
}

impl Elementwise for SoftCap {
    #[inline(always)]
    fn at<L: Lanes>(self, l: L, x: L::F, _: L::F) -> L::F {
        let cap = l.splat(self.cap);
        l.mul(cap, tanh(l, l.div(x, cap)))
    }
}

/// Applies `op` at every place of `x` and `y`, which are of one length.
pub(crate) fn apply<O: Elementwise>(cpu: &CpuBackend, op: O, x: &[f32], y: &[f32]) -> Vec<f32> {
    let write = |output: &mut [f32]| {
        let shared = SharedOutput::new(output);
        cpu.for_each(x.len(), GRAIN_ELEMENTS, |range| {
            // SAFETY: each place is handed out once.
            let output = unsafe { shared.slice(range.clone()) };
            dispatch(cpu.instruction_set(), Apply { op, x: &x[range.clone()], y: &y[range], output });
        });
    };
    // SAFETY: the ranges cover all places, and each place is stored.
    unsafe { filled_by(x.len(), write) }
}

struct Apply<'a, O> {
    op: O,
    x: &'a [f32],
    y: &'a [f32],
    output: &'a mut [f32],
}

impl<O: Elementwise> Kernel for Apply<'_, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        for ((x, y), output) in
            self.x.chunks(LANES).zip(self.y.chunks(LANES)).zip(self.output.chunks_mut(LANES))
        {
            l.store_first(output, self.op.at(l, l.load_first(x, 0.0), l.load_first(y, 0.0)));
        }
    }
}

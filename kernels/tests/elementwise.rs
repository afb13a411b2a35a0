//! Norm, rotation and gated activations against float64, in every order of fibers.
#![cfg(any(feature = "emu", feature = "cuda"))]
mod support;
use half::{bf16, f16};
use longwick_kernels::{
    Activation, Gated, HeadNorm, KernelError, RmsNorm, Rope, RopeAngles, RopeLayout, View, ViewMut,
};
use support::device::{Order, stream};
use support::pairs::{DIMS, LENGTHS, all_pairs};
use support::{Float, Random, check_error, guarded, in_every_order, unwritten};

fn norm_f64(row: &[f64], weight: &[f32], epsilon: f32) -> Vec<f64> {
    let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
    let scale = 1.0 / (mean + f64::from(epsilon)).sqrt();
    row.iter().zip(weight).map(|(x, w)| x * scale * f64::from(*w)).collect()
}

fn norm_plain(row: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let mean = row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32;
    let scale = 1.0 / (mean + epsilon).sqrt();
    row.iter().zip(weight).map(|(x, w)| x * scale * w).collect()
}

fn check_norm<T: Float>(rows: usize, dim: usize, with_residual: bool) {
    let mut random = Random(dim as u64);
    let (x, residual) = (random.elements::<T>(rows * dim, 3.0), random.elements::<T>(rows * dim, 2.0));
    let weight = random.elements::<f32>(dim, 1.0);
    let sums: Vec<T> = x.iter().zip(&residual).map(|(a, b)| T::of(a.f32() + b.f32())).collect();
    let found = in_every_order(|stream| {
        let (x, residual, weight) = (guarded(&x), guarded(&residual), guarded(&weight));
        let (mut sum, mut out) = (unwritten::<T>(rows * dim), unwritten::<T>(rows * dim));
        RmsNorm {
            x: View::on_host(x.elements::<T>()),
            residual: with_residual.then(|| {
                (View::on_host(residual.elements::<T>()), ViewMut::on_host(sum.elements_mut::<T>()))
            }),
            weight: View::on_host(weight.elements::<f32>()),
            epsilon: 1e-6,
            out: ViewMut::on_host(out.elements_mut::<T>()),
        }
        .launch(stream)
        .expect("rms_norm");
        if with_residual {
            assert_eq!(sum.elements::<T>(), sums);
        }
        out.elements::<T>().to_vec()
    });
    let normed = if with_residual { &sums } else { &x };
    let (mut oracle, mut plain) = (Vec::new(), Vec::new());
    for row in normed.chunks(dim) {
        oracle.extend(norm_f64(&row.iter().map(|x| f64::from(x.f32())).collect::<Vec<_>>(), &weight, 1e-6));
        let row: Vec<f32> = row.iter().map(|x| x.f32()).collect();
        plain.extend(norm_plain(&row, &weight, 1e-6).into_iter().map(T::of));
    }
    check_error(&format!("{rows} x {dim}"), &found, &plain, &oracle);
}

#[test]
fn rms_norm_is_accurate() {
    const HIDDEN: [usize; 5] = [8, 64, 640, 1032, 4096];
    let checks = [check_norm::<f32>, check_norm::<bf16>, check_norm::<f16>];
    for choice in all_pairs(&[checks.len(), LENGTHS.len(), HIDDEN.len(), 2], 1) {
        checks[choice[0]](LENGTHS[choice[1]], HIDDEN[choice[2]], choice[3] == 1);
    }
}

#[test]
fn a_norm_of_no_rows_writes_nothing() {
    check_norm::<f32>(0, 64, true);
}

/// cos and sin as the kernel tabulates them.
fn angles(positions: &[u32], frequencies: &[f32], factor: f32) -> (Vec<f32>, Vec<f32>) {
    let count = positions.len() * frequencies.len();
    let both = in_every_order(|stream| {
        let (mut cosines, mut sines) = (unwritten::<f32>(count), unwritten::<f32>(count));
        let (positions, frequencies) = (guarded(positions), guarded(frequencies));
        RopeAngles {
            positions: View::on_host(positions.elements::<u32>()),
            inverse_frequencies: View::on_host(frequencies.elements::<f32>()),
            attention_factor: factor,
            cosines: ViewMut::on_host(cosines.elements_mut::<f32>()),
            sines: ViewMut::on_host(sines.elements_mut::<f32>()),
        }
        .launch(stream)
        .expect("rope_angles");
        [cosines.elements::<f32>(), sines.elements()].concat()
    });
    (both[..count].to_vec(), both[count..].to_vec())
}

#[test]
fn angles_are_those_of_the_rounded_product() {
    let positions = [0, 1, 77, 131_071, 219_999];
    let frequencies = [1.0, 0.37, 1e-3, 2.5e-7];
    let (cosines, sines) = angles(&positions, &frequencies, 1.25);
    for (i, (&cos, &sin)) in cosines.iter().zip(&sines).enumerate() {
        let angle = f64::from(positions[i / 4] as f32 * frequencies[i % 4]);
        assert_eq!(cos, angle.cos() as f32 * 1.25);
        assert_eq!(sin, angle.sin() as f32 * 1.25);
    }
}

/// One rotation, and which elements are a pair.
#[derive(Debug, Clone, Copy)]
struct RopeCase {
    tokens: usize,
    heads: usize,
    dim: usize,
    pairs: usize,
    layout: RopeLayout,
    with_norm: bool,
}

impl RopeCase {
    /// The elements of a pair.
    fn elements(&self, pair: usize) -> (usize, usize) {
        match self.layout {
            RopeLayout::HalfRotation => (pair, pair + self.pairs),
            RopeLayout::Interleaved => (2 * pair, 2 * pair + 1),
        }
    }
}

fn check_rope<T: Float>(case: RopeCase) {
    let RopeCase { tokens, heads, dim, pairs, layout, with_norm } = case;
    let mut random = Random((dim + pairs) as u64);
    let positions: Vec<u32> = (0..tokens).map(|_| random.below(200_000) as u32).collect();
    let frequencies: Vec<f32> = (0..pairs).map(|i| 10_000f32.powf(-(i as f32) / pairs as f32)).collect();
    let (cosines, sines) = angles(&positions, &frequencies, 1.1);
    let x = random.elements::<T>(tokens * heads * dim, 2.0);
    let weight = random.elements::<f32>(dim, 1.0);
    let found = in_every_order(|stream| {
        // Out is x, as in the models: the kernel must have read a row before it writes it.
        let mut out = guarded(&x);
        let (cosines, sines, weight) = (guarded(&cosines), guarded(&sines), guarded(&weight));
        let address = out.elements::<T>().as_ptr() as u64;
        Rope {
            // SAFETY: `out` lives past the launch, which is the only one to touch it.
            x: unsafe { View::from_raw(address, x.len(), T::DTYPE) },
            heads,
            head_dim: dim,
            norm: with_norm
                .then(|| HeadNorm { weight: View::on_host(weight.elements::<f32>()), epsilon: 1e-6 }),
            cosines: View::on_host(cosines.elements::<f32>()),
            sines: View::on_host(sines.elements::<f32>()),
            layout,
            out: ViewMut::on_host(out.elements_mut::<T>()),
        }
        .launch(stream)
        .expect("rope");
        out.elements::<T>().to_vec()
    });
    let (mut oracle, mut plain) = (Vec::new(), Vec::new());
    for (i, head) in x.chunks(dim).enumerate() {
        let mut exact: Vec<f64> = head.iter().map(|x| f64::from(x.f32())).collect();
        let mut row: Vec<f32> = head.iter().map(|x| x.f32()).collect();
        if with_norm {
            exact = norm_f64(&exact, &weight, 1e-6);
            row = norm_plain(&row, &weight, 1e-6);
        }
        for pair in 0..pairs {
            let at = i / heads * pairs + pair;
            let (first, second) = case.elements(pair);
            let (cos, sin) = (cosines[at], sines[at]);
            let (a, b) = (row[first], row[second]);
            (row[first], row[second]) = (a * cos - b * sin, b * cos + a * sin);
            let (cos, sin) = (f64::from(cos), f64::from(sin));
            let (a, b) = (exact[first], exact[second]);
            (exact[first], exact[second]) = (a * cos - b * sin, b * cos + a * sin);
        }
        oracle.extend(exact);
        plain.extend(row.into_iter().map(T::of));
    }
    check_error(&format!("{case:?}"), &found, &plain, &oracle);
    let mut rows = found.chunks(dim).zip(x.chunks(dim));
    let passed = with_norm || rows.all(|(found, x)| found[2 * pairs..] == x[2 * pairs..]);
    assert!(passed, "{case:?}: elements past the pairs pass through");
}

#[test]
fn rope_is_accurate() {
    const LAYOUTS: [RopeLayout; 2] = [RopeLayout::HalfRotation, RopeLayout::Interleaved];
    let checks = [check_rope::<f32>, check_rope::<bf16>, check_rope::<f16>];
    // All pairs of a head turn, or some: of the smallest, fewer than fill a vector.
    let turning = [|dim: usize| dim / 2, |dim: usize| dim * 3 / 16];
    let sizes = [checks.len(), LENGTHS.len(), DIMS.len(), 2, turning.len(), LAYOUTS.len(), 2];
    for choice in all_pairs(&sizes, 1) {
        let dim = DIMS[choice[2]];
        checks[choice[0]](RopeCase {
            tokens: LENGTHS[choice[1]],
            heads: [1, 3][choice[3]],
            dim,
            pairs: turning[choice[4]](dim),
            layout: LAYOUTS[choice[5]],
            with_norm: choice[6] == 1,
        });
    }
}

fn activate(activation: Activation, gate: f64, up: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Silu => gate * sigmoid(gate) * up,
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044715 * gate * gate * gate);
            0.5 * gate * (1.0 + inner.tanh()) * up
        }
        Activation::ClampedSwiglu { alpha, limit } => {
            let (alpha, limit) = (f64::from(alpha), f64::from(limit));
            let (gate, up) = (gate.min(limit), up.clamp(-limit, limit));
            (up + 1.0) * gate * sigmoid(alpha * gate)
        }
    }
}

fn activate_plain(activation: Activation, gate: f32, up: f32) -> f32 {
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Silu => gate * sigmoid(gate) * up,
        Activation::GeluTanh => {
            let inner = (2.0 / std::f32::consts::PI).sqrt() * (gate + 0.044715 * gate * gate * gate);
            0.5 * gate * (1.0 + inner.tanh()) * up
        }
        Activation::ClampedSwiglu { alpha, limit } => {
            let (gate, up) = (gate.min(limit), up.clamp(-limit, limit));
            (up + 1.0) * gate * sigmoid(alpha * gate)
        }
    }
}

fn check_gated<T: Float>(rows: usize, dim: usize, activation: Activation) {
    let mut random = Random(dim as u64);
    // Gate and up side by side in one tensor, as one projection makes them.
    let both = random.elements::<T>(rows * 2 * dim, 4.0);
    let found = in_every_order(|stream| {
        let memory = guarded(&both);
        let mut out = unwritten::<T>(rows * dim);
        Gated {
            gate: View::on_host(memory.elements::<T>()),
            up: View::on_host(&memory.elements::<T>()[dim..]),
            row_stride: 2 * dim,
            dim,
            activation,
            out: ViewMut::on_host(out.elements_mut::<T>()),
        }
        .launch(stream)
        .expect("gated");
        out.elements::<T>().to_vec()
    });
    let (mut oracle, mut plain) = (Vec::new(), Vec::new());
    for row in both.chunks(2 * dim) {
        for (gate, up) in row[..dim].iter().zip(&row[dim..]) {
            oracle.push(activate(activation, f64::from(gate.f32()), f64::from(up.f32())));
            plain.push(T::of(activate_plain(activation, gate.f32(), up.f32())));
        }
    }
    check_error(&format!("{activation:?} {rows} x {dim}"), &found, &plain, &oracle);
}

#[test]
fn gated_activations_are_accurate() {
    let swiglu = Activation::ClampedSwiglu { alpha: 1.702, limit: 7.0 };
    let activations = [Activation::Silu, Activation::GeluTanh, swiglu];
    let checks = [check_gated::<f32>, check_gated::<bf16>, check_gated::<f16>];
    const INTERMEDIATE: [usize; 3] = [8, 72, 2048];
    for choice in all_pairs(&[checks.len(), LENGTHS.len(), INTERMEDIATE.len(), activations.len()], 1) {
        checks[choice[0]](LENGTHS[choice[1]], INTERMEDIATE[choice[2]], activations[choice[3]]);
    }
}

#[test]
fn wrong_arguments_are_named() {
    let (x, weight) = (vec![0f32; 24], vec![1f32; 8]);
    let mut out = vec![0f32; 16];
    let norm = RmsNorm {
        x: View::on_host(&x),
        residual: None,
        weight: View::on_host(&weight),
        epsilon: 0.0,
        out: ViewMut::on_host(&mut out),
    };
    let error = norm.launch(&mut stream(Order::Forward)).expect_err("too short an out");
    assert_eq!(error, KernelError::Length { argument: "out", expected: 24, found: 16 });

    let positions = vec![0u32; 3];
    let mut short = vec![0f32; 8];
    let error = Rope {
        x: View::on_host(&positions),
        heads: 1,
        head_dim: 8,
        norm: None,
        cosines: View::on_host(&weight),
        sines: View::on_host(&weight),
        layout: RopeLayout::HalfRotation,
        out: ViewMut::on_host(&mut short),
    }
    .launch(&mut stream(Order::Forward))
    .expect_err("integers");
    assert!(matches!(error, KernelError::Dtype { argument: "x", .. }), "{error}");
}

use super::*;
use crate::ops::testing::{Random, assert_within_twice_plain, backends, bits};
use candle_core::Device;

fn frequencies(rotary_dim: usize) -> Vec<f32> {
    (0..rotary_dim / 2).map(|i| 1.0 / 10_000_f32.powf(2.0 * i as f32 / rotary_dim as f32)).collect()
}

/// (first, second) element of pair `i`.
fn pair(layout: RopeLayout, rotary_dim: usize, i: usize) -> (usize, usize) {
    match layout {
        RopeLayout::HalfRotation => (i, i + rotary_dim / 2),
        RopeLayout::Interleaved => (2 * i, 2 * i + 1),
    }
}

fn run(
    backend: &Backend,
    x: &[f32],
    shape: (usize, usize, usize),
    rotary_dim: usize,
    positions: &[u32],
    scaling: f32,
    layout: RopeLayout,
) -> Vec<f32> {
    let angles = RopeAngles::new(backend, &frequencies(rotary_dim), positions, scaling).unwrap();
    let x = Tensor::from_slice(x, shape, &Device::Cpu).unwrap();
    let output = rope(backend, &x, &angles, layout).unwrap();
    assert_eq!(output.dims3().unwrap(), shape);
    output.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn rotates_pairs_by_the_f32_angle() {
    let positions = [0_u32, 1, 77, 4_095, 131_071, 219_999];
    for (dim, rotary_dim) in [(16, 16), (64, 64), (80, 32), (128, 96), (24, 12), (256, 2)] {
        for layout in [RopeLayout::HalfRotation, RopeLayout::Interleaved] {
            for scaling in [1.0_f32, 1.25] {
                let heads = 3;
                let mut random = Random::new(dim as u64);
                let x: Vec<f32> = (0..positions.len() * heads * dim).map(|_| random.normal()).collect();
                let mut exact: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
                let mut plain = x.clone();
                for (index, row) in x.chunks(dim).enumerate() {
                    for (i, frequency) in frequencies(rotary_dim).iter().enumerate() {
                        let (a, b) = pair(layout, rotary_dim, i);
                        let angle = positions[index / heads] as f32 * frequency;
                        let (sin, cos) = f64::from(angle).sin_cos();
                        let (sin, cos) = (sin * f64::from(scaling), cos * f64::from(scaling));
                        let (xa, xb) = (f64::from(row[a]), f64::from(row[b]));
                        exact[index * dim + a] = xa * cos - xb * sin;
                        exact[index * dim + b] = xb * cos + xa * sin;
                        let (sin, cos) = (angle.sin() * scaling, angle.cos() * scaling);
                        plain[index * dim + a] = row[a] * cos - row[b] * sin;
                        plain[index * dim + b] = row[b] * cos + row[a] * sin;
                    }
                }
                for backend in backends() {
                    let ours = run(
                        &backend,
                        &x,
                        (positions.len(), heads, dim),
                        rotary_dim,
                        &positions,
                        scaling,
                        layout,
                    );
                    assert_within_twice_plain(
                        &ours,
                        &plain,
                        &exact,
                        &format!("dim {dim} rotary {rotary_dim} {layout:?}"),
                    );
                    let passed =
                        ours.chunks(dim).zip(x.chunks(dim)).all(|(y, x)| y[rotary_dim..] == x[rotary_dim..]);
                    assert!(passed, "dimensions past the rotary ones pass through");
                }
            }
        }
    }
}

#[test]
fn a_token_does_not_depend_on_the_batch_or_on_threads_and_lanes() {
    let (tokens, heads, dim) = (400, 4, 64);
    let mut random = Random::new(3);
    let x: Vec<f32> = (0..tokens * heads * dim).map(|_| random.normal()).collect();
    let positions: Vec<u32> = (0..tokens as u32).map(|t| 1_000 + 3 * t).collect();
    let mut expected = Vec::new();
    for (row, position) in x.chunks(heads * dim).zip(&positions) {
        expected.extend(run(
            &backends()[0],
            row,
            (1, heads, dim),
            48,
            &[*position],
            1.0,
            RopeLayout::HalfRotation,
        ));
    }
    for backend in backends() {
        let ours = run(&backend, &x, (tokens, heads, dim), 48, &positions, 1.0, RopeLayout::HalfRotation);
        assert_eq!(bits(&ours), bits(&expected), "{}", backend.arithmetic());
    }
}

#[test]
fn position_zero_is_the_identity() {
    let x = [1.0, -2.0, 3.0, 4.5];
    for layout in [RopeLayout::HalfRotation, RopeLayout::Interleaved] {
        assert_eq!(run(&backends()[0], &x, (1, 1, 4), 4, &[0], 1.0, layout), x);
    }
}

#[test]
fn refuses_shapes_that_do_not_fit() {
    let backend = &backends()[0];
    let angles = RopeAngles::new(backend, &frequencies(8), &[1, 2], 1.0).unwrap();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu).unwrap();
    for shape in [&[3, 1, 8][..], &[2, 1, 6], &[2, 8]] {
        let refused = rope(backend, &zeros(shape), &angles, RopeLayout::HalfRotation);
        assert!(matches!(refused, Err(OpError::Shape { .. })), "{shape:?}");
    }
}

use super::*;
use crate::ops::testing::{Random, assert_within_twice_plain, backends, bits};
use candle_core::Device;

fn run(backend: &Backend, x: &[f32], rows: usize, weight: &[f32], eps: f32) -> Vec<f32> {
    let n = weight.len();
    let x = Tensor::from_slice(x, (rows, n), &Device::Cpu).unwrap();
    let weight = Tensor::from_slice(weight, n, &Device::Cpu).unwrap();
    let output = rms_norm(backend, &x, &weight, eps).unwrap();
    assert_eq!(output.dims(), [rows, n]);
    output.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn matches_the_oracle_at_sizes_around_the_lanes() {
    for n in [1, 3, 15, 16, 17, 63, 64, 65, 80, 576, 640, 1000, 4096] {
        let mut random = Random::new(n as u64);
        let rows = 5;
        let x: Vec<f32> =
            (0..rows * n).map(|i| random.normal() * [1.0, 1e-3, 300.0, 1.0, 5.0][i / n]).collect();
        let weight: Vec<f32> = (0..n).map(|_| 1.0 + 0.3 * random.normal()).collect();
        let (mut exact, mut plain) = (Vec::new(), Vec::new());
        for row in x.chunks(n) {
            let mean = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / n as f64;
            exact.extend(
                row.iter()
                    .zip(&weight)
                    .map(|(&v, &w)| f64::from(v) / (mean + f64::from(1e-6_f32)).sqrt() * f64::from(w)),
            );
            let mean = row.iter().map(|v| v * v).sum::<f32>() / n as f32;
            let inverse = 1.0 / (mean + 1e-6).sqrt();
            plain.extend(row.iter().zip(&weight).map(|(v, w)| v * inverse * w));
        }
        for backend in backends() {
            assert_within_twice_plain(
                &run(&backend, &x, rows, &weight, 1e-6),
                &plain,
                &exact,
                &format!("n {n} {}", backend.arithmetic()),
            );
        }
    }
}

#[test]
fn a_row_does_not_depend_on_the_others_or_on_threads_and_lanes() {
    let n = 648;
    let mut random = Random::new(1);
    let x: Vec<f32> = (0..300 * n).map(|_| random.normal()).collect();
    let weight: Vec<f32> = (0..n).map(|_| random.normal()).collect();
    let mut expected = Vec::new();
    let portable = &backends()[0];
    for row in x.chunks(n) {
        expected.extend(run(portable, row, 1, &weight, 1e-5));
    }
    for backend in backends() {
        assert_eq!(bits(&run(&backend, &x, 300, &weight, 1e-5)), bits(&expected), "{}", backend.arithmetic());
    }
}

#[test]
fn keeps_the_shape_and_refuses_a_weight_of_another_size() {
    let backend = &backends()[0];
    let x = Tensor::ones((2, 3, 8), candle_core::DType::F32, &Device::Cpu).unwrap();
    let weight = Tensor::ones(8, candle_core::DType::F32, &Device::Cpu).unwrap();
    assert_eq!(rms_norm(backend, &x, &weight, 1e-6).unwrap().dims(), [2, 3, 8]);
    let short = Tensor::ones(7, candle_core::DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(rms_norm(backend, &x, &short, 1e-6), Err(OpError::Shape { argument: "weight", .. })));
}

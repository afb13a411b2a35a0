use super::*;
use crate::ops::testing::{Random, assert_within_twice_plain, backends, bits};
use candle_core::Device;

const EPS: f32 = 1e-5;

fn run(backend: &Backend, x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
    let n = weight.len();
    let tensor = |data: &[f32]| Tensor::from_slice(data, data.len(), &Device::Cpu).unwrap();
    let x = tensor(x).reshape((x.len() / n, n)).unwrap();
    let output = layer_norm(backend, &x, &tensor(weight), &tensor(bias), EPS).unwrap();
    assert_eq!(output.dims(), x.dims());
    output.flatten_all().unwrap().to_vec1().unwrap()
}

fn case(n: usize, rows: usize) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let mut random = Random::new(n as u64);
    let x = (0..rows * n).map(|i| random.normal() * [1.0, 1e-3, 300.0][i / n % 3] + 0.5).collect();
    let weight = (0..n).map(|_| 1.0 + 0.3 * random.normal()).collect();
    (x, weight, random.vector(n))
}

#[test]
fn matches_the_oracle_at_sizes_around_the_lanes() {
    for n in [2, 15, 16, 17, 63, 64, 65, 384, 1000, 1024] {
        let (x, weight, bias) = case(n, 5);
        let (mut exact, mut plain) = (Vec::new(), Vec::new());
        for row in x.chunks(n) {
            let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
            let variance = row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n as f64;
            let inverse = 1.0 / (variance + f64::from(EPS)).sqrt();
            exact.extend(
                (0..n).map(|i| {
                    (f64::from(row[i]) - mean) * inverse * f64::from(weight[i]) + f64::from(bias[i])
                }),
            );
            let mean = row.iter().sum::<f32>() / n as f32;
            let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / n as f32;
            let inverse = 1.0 / (variance + EPS).sqrt();
            plain.extend((0..n).map(|i| (row[i] - mean) * inverse * weight[i] + bias[i]));
        }
        for backend in backends() {
            let label = format!("n {n} {}", backend.arithmetic());
            assert_within_twice_plain(&run(&backend, &x, &weight, &bias), &plain, &exact, &label);
        }
    }
}

#[test]
fn a_row_does_not_depend_on_the_others_or_on_threads_and_lanes() {
    let n = 648;
    let (x, weight, bias) = case(n, 90);
    let first = bits(&run(&backends()[0], &x, &weight, &bias));
    for backend in backends() {
        assert_eq!(first, bits(&run(&backend, &x, &weight, &bias)), "{}", backend.arithmetic());
        let alone = run(&backend, &x[7 * n..8 * n], &weight, &bias);
        assert_eq!(first[7 * n..8 * n], bits(&alone), "{}", backend.arithmetic());
    }
}

#[test]
fn parameters_of_another_length_are_refused() {
    let tensor = |n: usize| Tensor::ones(n, candle_core::DType::F32, &Device::Cpu).unwrap();
    let x = tensor(12).reshape((3, 4)).unwrap();
    let backend = &backends()[0];
    for (weight, bias, named) in [(5, 4, "weight"), (4, 3, "bias")] {
        let error = layer_norm(backend, &x, &tensor(weight), &tensor(bias), EPS).unwrap_err();
        assert!(matches!(&error, OpError::Shape { argument, .. } if *argument == named), "{error}");
    }
}

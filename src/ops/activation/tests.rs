use super::*;
use crate::ops::testing::{Random, assert_within_twice_plain, backends, bits};
use candle_core::Device;

type Binary = fn(&Backend, &Tensor, &Tensor) -> Result<Tensor, OpError>;

fn tensor(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::Cpu).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Every magnitude from denormal to saturation, both signs, and a length that is no multiple of the lanes.
fn inputs(scale: f32) -> Vec<f32> {
    let mut random = Random::new(5);
    let mut x: Vec<f32> = (0..20_003).map(|i| random.normal() * scale * 10_f32.powi(-(i % 9))).collect();
    x.extend([
        0.0, -0.0, 1e-38, -1e-38, 1e-42, 20.0, -20.0, 88.0, -88.0, 104.0, -104.0, 500.0, -500.0, 1e30, -1e30,
    ]);
    x
}

/// Checks by magnitude, so that small arguments are held to small errors.
fn check_by_magnitude(ours: &[f32], x: &[f32], exact: &[f64], plain: &[f32], label: &str) {
    for decade in -9..=2 {
        let within: Vec<usize> =
            (0..x.len()).filter(|&i| x[i] != 0.0 && x[i].abs().log10().floor() as i32 == decade).collect();
        if within.is_empty() {
            continue;
        }
        let pick32 = |data: &[f32]| within.iter().map(|&i| data[i]).collect::<Vec<_>>();
        let exact: Vec<f64> = within.iter().map(|&i| exact[i]).collect();
        assert_within_twice_plain(&pick32(ours), &pick32(plain), &exact, &format!("{label} decade {decade}"));
    }
}

fn silu64(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn gelu64(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

#[test]
fn clamped_swiglu_matches_the_oracle() {
    const ALPHA: f32 = 1.702;
    const LIMIT: f32 = 7.0;
    let gate = inputs(4.0);
    let mut random = Random::new(8);
    let up: Vec<f32> = gate.iter().map(|_| 6.0 * random.normal()).collect();
    let exact = |(gate, up): (&f32, &f32)| {
        let (gate, up) = (f64::from(*gate).min(7.0), f64::from(*up).clamp(-7.0, 7.0));
        (up + 1.0) * gate / (1.0 + (-f64::from(ALPHA) * gate).exp())
    };
    let plain = |(gate, up): (&f32, &f32)| {
        let (gate, up) = (gate.min(LIMIT), up.clamp(-LIMIT, LIMIT));
        (up + 1.0) * (gate / (1.0 + (-ALPHA * gate).exp()))
    };
    let exact: Vec<f64> = gate.iter().zip(&up).map(exact).collect();
    let plain: Vec<f32> = gate.iter().zip(&up).map(plain).collect();
    let mut first: Option<Vec<u32>> = None;
    for backend in backends() {
        let ours = clamped_swiglu(&backend, &tensor(&gate), &tensor(&up), ALPHA, LIMIT).unwrap();
        let ours = values(&ours);
        check_by_magnitude(&ours, &gate, &exact, &plain, &backend.arithmetic());
        assert_eq!(first.get_or_insert_with(|| bits(&ours)), &bits(&ours), "{}", backend.arithmetic());
        let refused = clamped_swiglu(&backend, &tensor(&gate), &tensor(&up), ALPHA, 0.0);
        assert!(matches!(refused, Err(OpError::Value { argument: "limit", .. })));
    }
}

#[test]
fn gated_activations_match_the_oracle() {
    let gate = inputs(3.0);
    let mut random = Random::new(6);
    let up: Vec<f32> = gate.iter().map(|_| 1.0 + 0.5 * random.unit()).collect();
    let silu32 = |x: f32| x / (1.0 + (-x).exp());
    let gelu32 = |x: f32| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh());
    type Case = (&'static str, Binary, fn(f64) -> f64, fn(f32) -> f32);
    let sigmoid64 = |x: f64| 1.0 / (1.0 + (-x).exp());
    let sigmoid32 = |x: f32| 1.0 / (1.0 + (-x).exp());
    let cases: [Case; 3] = [
        ("silu", silu_mul, silu64, silu32),
        ("gelu_tanh", gelu_tanh_mul, gelu64, gelu32),
        ("sigmoid", sigmoid_mul, sigmoid64, sigmoid32),
    ];
    for (name, op, exact, plain) in cases {
        let exact: Vec<f64> =
            gate.iter().zip(&up).map(|(&g, &u)| exact(f64::from(g)) * f64::from(u)).collect();
        let plain: Vec<f32> = gate.iter().zip(&up).map(|(&g, &u)| plain(g) * u).collect();
        for backend in backends() {
            let ours = values(&op(&backend, &tensor(&gate), &tensor(&up)).unwrap());
            check_by_magnitude(&ours, &gate, &exact, &plain, &format!("{name} {}", backend.arithmetic()));
            for (g, y) in gate.iter().zip(&ours) {
                assert!(y.is_finite(), "{name}({g}) = {y}");
            }
        }
    }
}

#[test]
fn soft_cap_matches_the_oracle_from_denormals_to_saturation() {
    for cap in [30.0_f32, 50.0, 1.0] {
        let x = inputs(cap);
        let exact: Vec<f64> =
            x.iter().map(|&v| f64::from(cap) * (f64::from(v) / f64::from(cap)).tanh()).collect();
        let plain: Vec<f32> = x.iter().map(|&v| cap * (v / cap).tanh()).collect();
        for backend in backends() {
            let ours = values(&soft_cap(&backend, &tensor(&x), cap).unwrap());
            check_by_magnitude(&ours, &x, &exact, &plain, &format!("cap {cap} {}", backend.arithmetic()));
            assert!(ours.iter().all(|y| y.abs() <= cap));
        }
    }
}

#[test]
fn an_element_does_not_depend_on_its_place_or_on_threads_and_lanes() {
    let gate = inputs(2.0);
    let up = inputs(1.0);
    for op in [silu_mul as Binary, gelu_tanh_mul, |backend, x, _| soft_cap(backend, x, 3.0)] {
        let expected = values(&op(&backends()[0], &tensor(&gate), &tensor(&up)).unwrap());
        for backend in backends() {
            assert_eq!(
                bits(&values(&op(&backend, &tensor(&gate), &tensor(&up)).unwrap())),
                bits(&expected),
                "{}",
                backend.arithmetic()
            );
            for start in [1, 5, 16, 19_990] {
                let ours = values(&op(&backend, &tensor(&gate[start..]), &tensor(&up[start..])).unwrap());
                assert_eq!(bits(&ours), bits(&expected[start..]));
            }
        }
    }
}

#[test]
fn add_and_scale_are_elementwise() {
    let (x, y) = (inputs(2.0), inputs(1.0));
    for backend in backends() {
        let sum: Vec<f32> = x.iter().zip(&y).map(|(a, b)| a + b).collect();
        assert_eq!(bits(&values(&add(&backend, &tensor(&x), &tensor(&y)).unwrap())), bits(&sum));
        let scaled: Vec<f32> = x.iter().map(|a| a * 0.3).collect();
        assert_eq!(bits(&values(&scale(&backend, &tensor(&x), 0.3).unwrap())), bits(&scaled));
    }
}

#[test]
fn operands_of_different_shapes_are_refused() {
    let backend = &backends()[0];
    let (x, y) = (tensor(&[0.0; 6]), tensor(&[0.0; 6]).reshape((2, 3)).unwrap());
    for op in [silu_mul as Binary, gelu_tanh_mul, add] {
        assert!(matches!(op(backend, &x, &y), Err(OpError::Shape { .. })));
    }
}

#[test]
fn gelu_stays_within_its_bound_of_the_error_function() {
    let x: Vec<f32> = inputs(3.0).into_iter().filter(|x| x.abs() < 1e4).collect();
    for backend in backends() {
        let ours = values(&gelu(&backend, &tensor(&x)).unwrap());
        for (&x, &ours) in x.iter().zip(&ours) {
            let wide = f64::from(x);
            let exact = 0.5 * wide * (1.0 + candle_core::cpu::erf::erf_f64(wide / std::f64::consts::SQRT_2));
            assert!(
                (f64::from(ours) - exact).abs() <= 4e-7 * wide.abs(),
                "gelu({x}) is {exact}, found {ours} ({})",
                backend.arithmetic()
            );
        }
    }
    let odd = values(&gelu(&backends()[0], &tensor(&[f32::NAN, f32::NEG_INFINITY])).unwrap());
    assert!(odd[0].is_nan() && odd[1].is_nan());
}

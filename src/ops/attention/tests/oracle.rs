use super::*;
use crate::ops::testing::fp8_scale;
use float8::F8E4M3;

/// The float type a reference computes in.
trait Float:
    Copy
    + std::ops::Add<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Div<Output = Self>
    + PartialOrd
{
    fn from_f32(x: f32) -> Self;
    fn exp(self) -> Self;
    fn tanh(self) -> Self;
    fn to_f64(self) -> f64;
}

macro_rules! float {
    ($t:ty) => {
        impl Float for $t {
            fn from_f32(x: f32) -> Self {
                <$t>::from(x)
            }
            fn exp(self) -> Self {
                <$t>::exp(self)
            }
            fn tanh(self) -> Self {
                <$t>::tanh(self)
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    };
}
float!(f32);
float!(f64);

/// What the cache keeps of keys or values `[tokens, kv_heads, dim]`.
fn cached<F: Float>(shape: &Shape, data: &[f32]) -> Vec<F> {
    let heads = data.chunks_exact(shape.dim);
    heads
        .flat_map(|head| {
            let scale = fp8_scale(head);
            head.iter().map(move |&x| match shape.dtype {
                KvDtype::F32 => F::from_f32(x),
                KvDtype::Bf16 => F::from_f32(bf16::from_f32(x).to_f32()),
                KvDtype::Fp8 => F::from_f32(F8E4M3::from_f32(x / scale).to_f32()) * F::from_f32(scale),
            })
        })
        .collect()
}

/// The textbook computation: whole score row, maximum, exponentials, sum, weighted sum of values.
fn reference<F: Float>(shape: &Shape, sequence: &Sequence, first_row: usize) -> Vec<f64> {
    let (keys, values) = (cached::<F>(shape, &sequence.k), cached::<F>(shape, &sequence.v));
    let sinks = shape.sinks();
    let mut output = Vec::new();
    for row in first_row..sequence.tokens {
        for head in 0..shape.q_heads() {
            let kv = |data: &[F], key: usize, d: usize| {
                data[(key * shape.kv_heads + head / shape.group) * shape.dim + d]
            };
            let first = shape.window.map_or(0, |window| (row + 1).saturating_sub(window as usize));
            let mut scores: Vec<F> = (first..=row)
                .map(|key| {
                    let q = &sequence.q[(row * shape.q_heads() + head) * shape.dim..][..shape.dim];
                    let dot = (0..shape.dim)
                        .fold(F::from_f32(0.0), |sum, d| sum + F::from_f32(q[d]) * kv(&keys, key, d));
                    let score = dot * F::from_f32(shape.scale());
                    shape.soft_cap.map_or(score, |cap| F::from_f32(cap) * (score / F::from_f32(cap)).tanh())
                })
                .collect();
            let sink = sinks.as_ref().map(|sinks| F::from_f32(sinks[head]));
            let mut max = sink.unwrap_or(scores[0]);
            for &score in &scores {
                if score > max {
                    max = score;
                }
            }
            let mut sum = sink.map_or(F::from_f32(0.0), |sink| (sink - max).exp());
            for score in &mut scores {
                *score = (*score - max).exp();
                sum = sum + *score;
            }
            for d in 0..shape.dim {
                let weighted = scores
                    .iter()
                    .enumerate()
                    .fold(F::from_f32(0.0), |acc, (i, &p)| acc + p * kv(&values, first + i, d));
                output.push((weighted / sum).to_f64());
            }
        }
    }
    output
}

/// Root mean square and largest absolute difference.
fn errors(ours: impl Iterator<Item = f64>, exact: &[f64]) -> (f64, f64) {
    let mut largest = 0.0_f64;
    let mut squares = 0.0;
    for (a, b) in ours.zip(exact) {
        assert!(a.is_finite());
        largest = largest.max((a - b).abs());
        squares += (a - b) * (a - b);
    }
    ((squares / exact.len() as f64).sqrt(), largest)
}

fn check(shape: &Shape, tokens: usize, prefilled: usize) {
    let sequence = Sequence::new(shape, tokens, 1000 + tokens as u64);
    let exact = reference::<f64>(shape, &sequence, prefilled);
    let plain = errors(reference::<f32>(shape, &sequence, prefilled).into_iter(), &exact);
    let way = Way { prefilled, ..Way::new(Backend::cpu(std::num::NonZeroUsize::new(2)).unwrap()) };
    let output = run(shape, std::slice::from_ref(&sequence), &way).remove(0);
    assert_eq!(output.len(), exact.len());
    let ours = errors(output.iter().map(|&x| f64::from(x)), &exact);
    // A few rounding steps of slack where the plain implementation happens to be exact (one visible key).
    let slack = 2.0 * f64::from(f32::EPSILON);
    let label = format!(
        "dim {} group {} tokens {tokens}: ours {ours:?}, plain f32 {plain:?}",
        shape.dim, shape.group
    );
    assert!(ours.0 <= 2.0 * plain.0 + slack * 0.1, "{label}");
    assert!(ours.1 <= 2.0 * plain.1 + slack, "{label}");
}

#[test]
fn every_head_size_is_as_exact_as_plain_f32() {
    for dim in [8, 16, 24, 32, 64, 72, 80, 96, 128, 256, 512] {
        check(&Shape { dim, kv_heads: 1, ..Shape::default() }, 300, 220);
        for dtype in [KvDtype::Bf16, KvDtype::Fp8] {
            check(&Shape { dim, kv_heads: 1, group: 1, dtype, ..Shape::default() }, 140, 100);
        }
    }
}

#[test]
fn context_lengths_straddle_blocks_and_spans() {
    for tokens in [1, 2, 15, 16, 17, 31, 33, 255, 256, 257, 271, 273, 511, 512, 513, 768, 1023, 1025, 1500] {
        check(&Shape { dim: 32, ..Shape::default() }, tokens, tokens.saturating_sub(20));
    }
}

#[test]
fn groups_windows_sinks_and_caps_are_as_exact_as_plain_f32() {
    for group in [1, 3, 4, 5, 8] {
        for (window, sinks, soft_cap) in [
            (None, true, None),
            (Some(100), false, None),
            (Some(300), true, Some(5.0)),
            (Some(1), false, Some(30.0)),
        ] {
            check(
                &Shape { group, window, sinks, soft_cap, kv_heads: 1, dim: 64, ..Shape::default() },
                530,
                480,
            );
            let fp8 = Shape { window, sinks, soft_cap, dtype: KvDtype::Fp8, ..Shape::default() };
            check(&Shape { group, ..fp8 }, 330, 280);
        }
    }
}

#[test]
fn larger_blocks_hold_the_same_keys() {
    for block_size in [32, 48, 256] {
        check(&Shape { block_size, dim: 32, ..Shape::default() }, 600, 560);
    }
}

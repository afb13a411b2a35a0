use super::*;
use crate::ops::InstructionSet;
use crate::ops::testing::{backend, backends};

fn assert_same(expected: &[Vec<f32>], actual: &[Vec<f32>], label: &str) {
    assert_eq!(expected.len(), actual.len());
    for (index, (a, b)) in expected.iter().zip(actual).enumerate() {
        assert_eq!(a.len(), b.len(), "{label}");
        assert!(a.iter().all(|x| x.is_finite()), "{label}");
        let differs = a.iter().zip(b).position(|(x, y)| x.to_bits() != y.to_bits());
        assert_eq!(differs, None, "{label}: sequence {index} differs");
    }
}

fn threads(count: usize) -> Backend {
    backend(count, InstructionSet::available()[0])
}

/// All backends, but the slow portable one only for one of the chunk sizes.
fn backends_for(chunk: usize) -> Vec<Backend> {
    let is_portable = |backend: &Backend| backend.arithmetic() == "cpu/portable";
    backends().into_iter().filter(|backend| chunk == 60 || !is_portable(backend)).collect()
}

fn name(backend: &Backend) -> String {
    format!("{} threads {}", backend.arithmetic(), backend.threads())
}

fn shapes() -> Vec<Shape> {
    let plain = Shape::default();
    vec![
        plain.clone(),
        Shape { group: 3, dim: 24, window: Some(70), dtype: KvDtype::Bf16, ..plain.clone() },
        Shape { group: 1, window: Some(400), sinks: true, ..plain.clone() },
        Shape { group: 5, kv_heads: 1, soft_cap: Some(4.0), ..plain.clone() },
        Shape {
            group: 8,
            kv_heads: 1,
            dim: 80,
            window: Some(17),
            sinks: true,
            soft_cap: Some(9.0),
            dtype: KvDtype::Bf16,
            ..plain.clone()
        },
        Shape { group: 4, kv_heads: 1, dim: 32, block_size: 32, window: Some(5000), ..plain.clone() },
        Shape { group: 2, dim: 24, block_size: 32, window: Some(300), dtype: KvDtype::Fp8, ..plain.clone() },
        Shape {
            group: 5,
            kv_heads: 1,
            dim: 32,
            sinks: true,
            soft_cap: Some(4.0),
            dtype: KvDtype::Fp8,
            ..plain
        },
    ]
}

#[test]
fn chunks_threads_and_instruction_sets_do_not_change_bits() {
    for (number, shape) in shapes().iter().enumerate() {
        let sequences = [Sequence::new(shape, 620, number as u64)];
        let expected = run(shape, &sequences, &Way { chunk: 1, ..Way::new(threads(1)) });
        for chunk in [1, 7, 16, 60, 64, 300, 620] {
            for backend in backends_for(chunk) {
                let label = format!("shape {number} chunk {chunk} {}", name(&backend));
                assert_same(&expected, &run(shape, &sequences, &Way { chunk, ..Way::new(backend) }), &label);
            }
        }
    }
}

#[test]
fn spans_shared_out_over_threads_do_not_change_bits() {
    for (number, shape) in shapes().iter().enumerate() {
        // Enough work a row that even one row's spans are shared out.
        let shape = &Shape { dim: 4 * shape.dim.min(64), ..shape.clone() };
        let sequences = [Sequence::new(shape, 1500, 50 + number as u64)];
        let prefilled = 1440;
        let expected = run(shape, &sequences, &Way { chunk: 1, prefilled, ..Way::new(threads(1)) });
        for chunk in [1, 5, 60] {
            for backend in backends_for(chunk) {
                let label = format!("shape {number} chunk {chunk} {}", name(&backend));
                assert_same(
                    &expected,
                    &run(shape, &sequences, &Way { chunk, prefilled, ..Way::new(backend) }),
                    &label,
                );
            }
        }
        let four = Way { chunk: 1, prefilled, ..Way::new(threads(4)) };
        assert_same(&expected, &run(shape, &sequences, &four), &format!("shape {number} four threads"));
    }
}

#[test]
fn the_rest_of_the_batch_does_not_change_bits() {
    for (number, shape) in shapes().iter().enumerate() {
        let sequences: Vec<Sequence> = [300, 1, 257, 40, 16]
            .iter()
            .enumerate()
            .map(|(index, &tokens)| Sequence::new(shape, tokens, 7 * index as u64))
            .collect();
        let expected = run(shape, &sequences, &Way { chunk: 19, ..Way::new(threads(1)) });
        for chunk in [1, 16, 300] {
            let way = Way { chunk, together: true, ..Way::new(threads(2)) };
            assert_same(&expected, &run(shape, &sequences, &way), &format!("shape {number} chunk {chunk}"));
        }
    }
}

#[test]
fn pages_and_what_lies_stale_in_them_do_not_change_bits() {
    for (number, shape) in shapes().iter().enumerate() {
        let sequences = [Sequence::new(shape, 533, 3), Sequence::new(shape, 90, 4)];
        let expected = run(shape, &sequences, &Way::new(threads(1)));
        for stale in [Stale::Finite, Stale::Nan] {
            for chunk in [1, 30, 533] {
                let way =
                    Way { chunk, stale, scatter: Some(chunk as u64), together: true, ..Way::new(threads(2)) };
                assert_same(
                    &expected,
                    &run(shape, &sequences, &way),
                    &format!("shape {number} chunk {chunk}"),
                );
            }
        }
    }
}

#[test]
fn later_keys_in_the_cache_do_not_change_bits() {
    for (number, shape) in shapes().iter().enumerate() {
        let sequences = [Sequence::new(shape, 400, 3)];
        let expected = run(shape, &sequences, &Way::new(threads(1)));
        let way = Way { keys_first: true, chunk: 33, ..Way::new(threads(2)) };
        assert_same(&expected, &run(shape, &sequences, &way), &format!("shape {number}"));
    }
}

#[test]
fn released_blocks_do_not_change_bits() {
    for (number, shape) in shapes().iter().enumerate().filter(|(_, shape)| shape.window.is_some()) {
        let sequences = [Sequence::new(shape, 900, 3)];
        let expected = run(shape, &sequences, &Way::new(threads(1)));
        for chunk in [1, 48, 200] {
            let way =
                Way { chunk, release: true, scatter: Some(5), stale: Stale::Nan, ..Way::new(threads(2)) };
            assert_same(&expected, &run(shape, &sequences, &way), &format!("shape {number} chunk {chunk}"));
        }
    }
}

#[test]
fn a_later_token_that_overflowed_does_not_reach_earlier_rows() {
    for dtype in KvDtype::ALL {
        check_broken_token(&Shape { dtype, ..Shape::default() });
    }
}

/// Token 40 is broken: rows before it are as they are without, it and those behind it are not numbers.
fn check_broken_token(shape: &Shape) {
    let expected = run(shape, &[Sequence::new(shape, 64, 3)], &Way::new(threads(1)));
    let mut broken = Sequence::new(shape, 64, 3);
    let row = shape.kv_heads * shape.dim;
    broken.k[40 * row..41 * row].fill(f32::NAN);
    broken.v[40 * row..41 * row].fill(f32::INFINITY);
    let actual = run(shape, &[broken], &Way { chunk: 64, ..Way::new(threads(2)) });
    let before = 40 * shape.q_heads() * shape.dim;
    assert_same(
        &[expected[0][..before].to_vec()],
        &[actual[0][..before].to_vec()],
        "rows before the broken token",
    );
    assert!(actual[0][before..].iter().all(|x| x.is_nan()), "{}", shape.dtype);
}

use super::*;
use crate::{
    ops::cpu::panel::tests::{DTYPES, Random, backend, is_float, random_weights, reference, view},
    weights::WeightDtype,
};
use candle_core::{DType, Device};

fn matrix(elements: &[f32], columns: usize) -> Tensor {
    from_elements(elements.to_vec(), (elements.len() / columns, columns)).unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    F32View::of(tensor, "tensor").unwrap().iter().map(|element| element.to_bits()).collect()
}

/// Shapes that straddle panels, blocks and tiles.
fn shapes(dtype: WeightDtype) -> Vec<(usize, usize)> {
    match dtype {
        WeightDtype::Mxfp4 => vec![(1, 32), (17, 96), (50, 320)],
        _ if is_float(dtype) => vec![(1, 1), (17, 7), (33, 130), (48, 64), (50, 301)],
        WeightDtype::Q4K | WeightDtype::Q5K | WeightDtype::Q6K => vec![(1, 256), (35, 768)],
        _ => vec![(1, 32), (17, 96), (50, 320)],
    }
}

#[test]
fn agrees_with_float64() {
    let mut random = Random(3);
    for dtype in DTYPES {
        for (n, k) in shapes(dtype) {
            let data = random_weights(dtype, n, k, &mut random);
            let weights = reference(dtype, n, k, &data);
            let bias = random.vector(n);
            let backend = backend(2, InstructionSet::available()[0]);
            let packed = PackedMatrix::pack(&backend, &view(dtype, n, k, &data)).unwrap();
            for rows in [1, 3, 29] {
                let x = random.vector(rows * k);
                let found =
                    linear(&backend, &matrix(&x, k), &packed, Some(&matrix(&bias, n).flatten_all().unwrap()));
                let found = found.unwrap();
                assert_eq!(found.dims(), [rows, n]);
                let found = F32View::of(&found, "found").unwrap();
                for (index, found) in found.iter().enumerate() {
                    let (row, column) = (&x[index / n * k..][..k], &weights[index % n * k..][..k]);
                    let products = || row.iter().zip(column).map(|(x, w)| f64::from(*x) * f64::from(*w));
                    let exact = products().sum::<f64>() + f64::from(bias[index % n]);
                    // A chain of k roundings, each of half a unit of a partial sum.
                    let size = products().map(f64::abs).sum::<f64>() + f64::from(bias[index % n]).abs();
                    let mut bound = size * (k + 2) as f64 * f64::from(f32::EPSILON) / 2.0;
                    if !is_float(dtype) {
                        // Elements below 1 become multiples of 2^-15 at most, so they move by 2^-16.
                        bound += column.iter().map(|w| f64::from(w.abs())).sum::<f64>() / 65_536.0;
                        // A weight with an offset is a difference, whose parts are rounded apart.
                        bound += 64.0 * size * f64::from(f32::EPSILON);
                    }
                    assert!(
                        (f64::from(*found) - exact).abs() <= bound,
                        "{dtype:?} {n}x{k}: {found} for {exact}"
                    );
                }
            }
        }
    }
}

/// The definition for floats: one fused chain over ascending k, then the bias.
fn by_definition(x: &[f32], weights: &[f32], k: usize, bias: Option<&[f32]>) -> Vec<u32> {
    each_output(x, weights, k, bias, |row, weights| {
        row.iter().zip(weights).fold(0.0f32, |sum, (x, w)| x.mul_add(*w, sum))
    })
}

fn each_output(
    x: &[f32],
    weights: &[f32],
    k: usize,
    bias: Option<&[f32]>,
    dot: impl Fn(&[f32], &[f32]) -> f32,
) -> Vec<u32> {
    let mut out = Vec::new();
    for row in x.chunks(k) {
        for (column, weights) in weights.chunks(k).enumerate() {
            let sum = dot(row, weights);
            out.push(bias.map_or(sum, |bias| sum + bias[column]).to_bits());
        }
    }
    out
}

/// The definition for Q8_0, from the file's bytes: 32 elements under an f16 scale.
fn by_definition_q8(x: &[f32], data: &[u8], k: usize) -> Vec<u32> {
    let blocks: Vec<(f32, &[u8])> = data
        .chunks(34)
        .map(|block| (half::f16::from_le_bytes([block[0], block[1]]).to_f32(), &block[2..]))
        .collect();
    let mut out = Vec::new();
    for row in x.chunks(k) {
        for weights in blocks.chunks(k / 32) {
            let sum = row.chunks(32).zip(weights).fold(0.0f32, |sum, (x, (scale, quants))| {
                let greatest = x.iter().fold(0.0f32, |greatest, x| greatest.max(x.abs()));
                let step = 2f32.powi(greatest.log2().floor() as i32 - 14);
                let fixed = |x: &f32| (x / step).round_ties_even().min(32_767.0) as i32;
                let dot: i32 = x.iter().zip(*quants).map(|(x, q)| fixed(x) * i32::from(*q as i8)).sum();
                (dot as f32 * step).mul_add(*scale, sum)
            });
            out.push(sum.to_bits());
        }
    }
    out
}

#[test]
fn quantised_weights_follow_the_definition() {
    let mut random = Random(21);
    for (n, k) in [(1, 32), (35, 96), (18, 320)] {
        let data = random_weights(WeightDtype::Q8_0, n, k, &mut random);
        for rows in [1, 5, 30] {
            let mut x = random.vector(rows * k);
            // Blocks of very different sizes, and one that rounds up to 2^15.
            x.iter_mut()
                .enumerate()
                .for_each(|(index, x)| *x *= 10f32.powi((index / 32 % 7) as i32 * 4 - 12));
            x[0] = 0.999_999_9 * 8.0;
            let backend = backend(2, InstructionSet::available()[0]);
            let packed = PackedMatrix::pack(&backend, &view(WeightDtype::Q8_0, n, k, &data)).unwrap();
            let found = bits(&linear(&backend, &matrix(&x, k), &packed, None).unwrap());
            assert_eq!(found, by_definition_q8(&x, &data, k), "{n}x{k}, {rows} rows");
        }
    }
}

#[test]
fn exact_activations_give_exact_products() {
    // One element of each row is set: the row's output is the weight itself, whatever the format.
    let mut random = Random(23);
    for dtype in DTYPES {
        let (n, k) = if is_float(dtype) { (20, 64) } else { (20, 256) };
        let data = random_weights(dtype, n, k, &mut random);
        let weights = reference(dtype, n, k, &data);
        let rows = 23;
        let mut x = vec![0.0; rows * k];
        for row in 0..rows {
            x[row * k + row * 11 % k] = 2.0;
        }
        for set in InstructionSet::available() {
            let backend = backend(1, set);
            let packed = PackedMatrix::pack(&backend, &view(dtype, n, k, &data)).unwrap();
            let found = linear(&backend, &matrix(&x, k), &packed, None).unwrap();
            for (index, found) in F32View::of(&found, "found").unwrap().iter().enumerate() {
                let weight = weights[index % n * k + index / n * 11 % k];
                let bound = f32::EPSILON * weight.abs().max(0.05 * 64.0) * 2.0;
                assert!((found - 2.0 * weight).abs() <= bound, "{dtype:?} {set:?}: {found} for 2 x {weight}");
            }
        }
    }
}

#[test]
fn bits_depend_on_the_row_alone() {
    let mut random = Random(5);
    for dtype in DTYPES {
        for (n, k) in shapes(dtype) {
            let data = random_weights(dtype, n, k, &mut random);
            let bias = random.vector(n);
            let x = random.vector(40 * k);
            let expected = if is_float(dtype) {
                by_definition(&x, &reference(dtype, n, k, &data), k, Some(&bias))
            } else {
                // Row by row in plain code; `quantised_weights_follow_the_definition` holds it to the definition.
                let backend = backend(1, InstructionSet::Portable);
                let packed = PackedMatrix::pack(&backend, &view(dtype, n, k, &data)).unwrap();
                let bias = matrix(&bias, n).flatten_all().unwrap();
                let row = |x| bits(&linear(&backend, &matrix(x, k), &packed, Some(&bias)).unwrap());
                x.chunks(k).flat_map(row).collect()
            };
            let bias = matrix(&bias, n).flatten_all().unwrap();
            for set in InstructionSet::available() {
                for threads in [1, 2] {
                    let backend = backend(threads, set);
                    let packed = PackedMatrix::pack(&backend, &view(dtype, n, k, &data)).unwrap();
                    // Every number of rows, at changing places.
                    for rows in 1..=40 {
                        let first = (rows * 7) % (41 - rows);
                        let part = matrix(&x[first * k..(first + rows) * k], k);
                        let found = bits(&linear(&backend, &part, &packed, Some(&bias)).unwrap());
                        let expected = &expected[first * n..(first + rows) * n];
                        assert_eq!(
                            found, expected,
                            "{dtype:?} {n}x{k}, {rows} rows from {first}, {set:?}, {threads} threads"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn many_rows_are_parted_among_threads_without_a_change() {
    let mut random = Random(9);
    let (n, k, rows) = (40, 64, 500);
    let data = random_weights(WeightDtype::Q8_0, n, k, &mut random);
    let x = random.vector(rows * k);
    let expected = by_definition_q8(&x, &data, k);
    for set in InstructionSet::available() {
        for threads in [1, 2, 5] {
            let backend = backend(threads, set);
            let packed = PackedMatrix::pack(&backend, &view(WeightDtype::Q8_0, n, k, &data)).unwrap();
            let found = linear(&backend, &matrix(&x, k), &packed, None).unwrap();
            assert_eq!(bits(&found), expected, "{set:?}, {threads} threads");
        }
    }
}

#[test]
fn takes_views_and_no_rows() {
    let mut random = Random(11);
    let data = random_weights(WeightDtype::F32, 16, 8, &mut random);
    let backend = backend(1, InstructionSet::Portable);
    let packed = PackedMatrix::pack(&backend, &view(WeightDtype::F32, 16, 8, &data)).unwrap();
    let x = matrix(&random.vector(5 * 8), 8);
    let all = bits(&linear(&backend, &x, &packed, None).unwrap());
    let last = bits(&linear(&backend, &x.narrow(0, 4, 1).unwrap(), &packed, None).unwrap());
    assert_eq!(last, all[4 * 16..]);
    let none = linear(&backend, &x.narrow(0, 0, 0).unwrap(), &packed, None).unwrap();
    assert_eq!(none.dims(), [0, 16]);
}

#[test]
fn refuses_what_does_not_fit() {
    let backend = backend(1, InstructionSet::Portable);
    let data = random_weights(WeightDtype::F32, 16, 8, &mut Random(1));
    let packed = PackedMatrix::pack(&backend, &view(WeightDtype::F32, 16, 8, &data)).unwrap();
    let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &Device::Cpu).unwrap();
    let refusal = |x: &Tensor, bias: Option<&Tensor>| linear(&backend, x, &packed, bias).unwrap_err();

    let wide = refusal(&zeros(&[2, 9], DType::F32), None);
    assert_eq!(wide.to_string(), "x: expected [tokens, 8], found shape [2, 9]");
    assert!(matches!(refusal(&zeros(&[8], DType::F32), None), OpError::Shape { argument: "x", .. }));
    assert!(matches!(refusal(&zeros(&[2, 8], DType::F16), None), OpError::UnsupportedDtype { .. }));
    let transposed = zeros(&[8, 2], DType::F32).t().unwrap();
    assert!(matches!(refusal(&transposed, None), OpError::NotContiguous { argument: "x", .. }));
    let x = zeros(&[2, 8], DType::F32);
    let short = zeros(&[15], DType::F32);
    assert!(matches!(refusal(&x, Some(&short)), OpError::Shape { argument: "bias", .. }));
}

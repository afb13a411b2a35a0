use super::*;
use crate::ops::InstructionSet;
use crate::ops::{
    PackedMatrix, embedding,
    tensors::F32View,
    testing::{Random, backend, backends},
};

const FLOATS: [WeightDtype; 3] = [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16];

/// Normal numbers as the file holds them.
fn floats(dtype: WeightDtype, count: usize, seed: u64) -> Vec<u8> {
    let numbers = Random::new(seed).vector(count);
    let narrow = |x: f32| match dtype {
        WeightDtype::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
        WeightDtype::Bf16 => bf16::from_f32(x).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    };
    numbers.into_iter().flat_map(narrow).collect()
}

fn view(dtype: WeightDtype, shape: [usize; 2], data: &[u8]) -> TensorView<'_> {
    TensorView { name: "blk.0.weight", dtype, shape: shape.to_vec(), data }
}

fn all_rows(backend: &Backend, tensor: &TensorView<'_>) -> Vec<f32> {
    let matrix = PackedMatrix::pack(backend, tensor).unwrap();
    let ids: Vec<u32> = (0..tensor.shape[0] as u32).collect();
    F32View::of(&embedding(backend, &matrix, &ids).unwrap(), "rows").unwrap().to_vec()
}

/// Candle's quantiser over the matrix as a whole, on one thread.
fn whole(data: &[u8], dtype: WeightDtype, shape: [usize; 2], format: Quantization) -> Vec<u8> {
    let floats = Tensor::from_vec(widen(dtype, data), (shape[0], shape[1]), &Device::Cpu).unwrap();
    QTensor::quantize(&floats, ggml_dtype(format.dtype()).unwrap()).unwrap().data().unwrap().into_owned()
}

#[test]
fn rows_on_all_threads_are_the_matrix_quantised_as_a_whole() {
    // Rows that several pieces of work share out, the last of them short.
    let shape = [300, 512];
    for format in Quantization::ALL {
        for dtype in FLOATS {
            let data = floats(dtype, shape[0] * shape[1], 7);
            let expected = whole(&data, dtype, shape, format);
            for backend in backends() {
                assert!(
                    quantize(&backend, &view(dtype, shape, &data), format).unwrap() == expected,
                    "{format}"
                );
            }
        }
    }
}

#[test]
fn more_bits_are_nearer_to_the_floats() {
    let (shape, backend) = ([64, 1024], backend(2, InstructionSet::Portable));
    let data = floats(WeightDtype::F32, shape[0] * shape[1], 11);
    let exact = all_rows(&backend, &view(WeightDtype::F32, shape, &data));
    let error = |format: Quantization| {
        let blocks = quantize(&backend, &view(WeightDtype::F32, shape, &data), format).unwrap();
        let found = all_rows(&backend, &view(format.dtype(), shape, &blocks));
        let squares = found.iter().zip(&exact).map(|(a, b)| f64::from(a - b).powi(2));
        (squares.sum::<f64>() / exact.len() as f64).sqrt()
    };
    let errors = Quantization::ALL.map(error);
    println!("{errors:?}");
    // Of numbers of variance 1: about the step that the bits allow, and the order of `ALL`.
    assert!(errors[0] < 0.01 && errors[6] < 0.12, "{errors:?}");
    assert!(errors.is_sorted(), "{errors:?}");
}

#[test]
fn zeros_stay_zeros_and_a_block_of_one_number_keeps_it() {
    let (shape, backend) = ([3, 256], backend(1, InstructionSet::Portable));
    for format in Quantization::ALL {
        for constant in [0.0_f32, 0.5, -0.5] {
            let data: Vec<u8> = (0..3 * 256).flat_map(|_| constant.to_le_bytes()).collect();
            let blocks = quantize(&backend, &view(WeightDtype::F32, shape, &data), format).unwrap();
            for found in all_rows(&backend, &view(format.dtype(), shape, &blocks)) {
                assert!(
                    (found - constant).abs() <= 0.01 * constant.abs(),
                    "{format}: {found} for {constant}"
                );
            }
        }
    }
}

fn reason(dtype: WeightDtype, shape: &[usize], data: &[u8], format: Quantization) -> String {
    let tensor = TensorView { shape: shape.to_vec(), ..view(dtype, [0, 0], data) };
    quantize(&backend(1, InstructionSet::Portable), &tensor, format).unwrap_err().to_string()
}

#[test]
fn what_blocks_cannot_hold_is_refused() {
    let data = [0; 1024];
    let refused = |shape: &[usize], format| reason(WeightDtype::F32, shape, &data, format);
    assert!(
        refused(&[2, 96], Quantization::Q4K).ends_with("rows of 96 elements are not whole blocks of 256")
    );
    assert!(
        refused(&[0, 32], Quantization::Q8_0).ends_with("rows of 32 elements are not whole blocks of 32")
    );
    assert!(refused(&[4, 32], Quantization::Q8_0).ends_with("expected 512 bytes, found 1024"));
    assert!(
        refused(&[usize::MAX / 32, 64], Quantization::Q8_0)
            .ends_with("the shape overflows, found 1024 bytes")
    );
    assert!(refused(&[256], Quantization::Q8_0).ends_with("a matrix has 2 dimensions, found 1"));
    let error = reason(WeightDtype::Q8_0, &[1, 32], &data[..34], Quantization::Q4_0);
    assert!(error.ends_with("only floats can be quantised to q4_0"), "{error}");
}

#[test]
fn a_number_that_no_block_can_hold_is_named() {
    for (number, shown) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf"), (1e6, "1000000")] {
        let mut data = floats(WeightDtype::F32, 300 * 512, 3);
        // The first of two is named, whichever thread comes first.
        for at in [299 * 512 + 7, 200 * 512 + 9] {
            data[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
        }
        for format in Quantization::ALL {
            let tensor = view(WeightDtype::F32, [300, 512], &data);
            let backend = backend(2, InstructionSet::Portable);
            let error = quantize(&backend, &tensor, format).unwrap_err().to_string();
            assert!(error.contains(&format!("row 200, column 9 is {shown}")), "{error}");
        }
    }
}

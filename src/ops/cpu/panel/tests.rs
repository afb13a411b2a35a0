use crate::{
    ops::{Backend, CpuBackend, InstructionSet, PackedMatrix, embedding, ggml::ggml_dtype, tensors::F32View},
    weights::{TensorView, WeightDtype},
};
use candle_core::{
    Device,
    quantized::{QStorage, QTensor},
};
use std::{borrow::Cow, num::NonZeroUsize, sync::Arc};

pub(crate) const DTYPES: [WeightDtype; 11] = [
    WeightDtype::F32,
    WeightDtype::F16,
    WeightDtype::Bf16,
    WeightDtype::Q4_0,
    WeightDtype::Q4_1,
    WeightDtype::Q5_0,
    WeightDtype::Q8_0,
    WeightDtype::Mxfp4,
    WeightDtype::Q4K,
    WeightDtype::Q5K,
    WeightDtype::Q6K,
];

pub(crate) fn backend(threads: usize, instruction_set: InstructionSet) -> Backend {
    let threads = NonZeroUsize::new(threads).unwrap();
    Backend::Cpu(Arc::new(CpuBackend::new(threads, instruction_set).unwrap()))
}

/// A small generator, so that a failing case is the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 ^ (self.0 >> 11) as u32
    }

    /// Uniform in -1..1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / 8_388_608.0 - 1.0
    }

    pub(crate) fn vector(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.unit()).collect()
    }
}

/// Elements and bytes of a block, and where its f16 fields stand, as ggml's structs have them.
fn block(dtype: WeightDtype) -> (usize, usize, &'static [usize]) {
    match dtype {
        WeightDtype::F32 => (1, 4, &[]),
        WeightDtype::F16 | WeightDtype::Bf16 => (1, 2, &[]),
        WeightDtype::Q4_0 => (32, 18, &[0]),
        WeightDtype::Q4_1 => (32, 20, &[0, 2]),
        WeightDtype::Q5_0 => (32, 22, &[0]),
        WeightDtype::Q8_0 => (32, 34, &[0]),
        WeightDtype::Mxfp4 => (32, 17, &[]),
        WeightDtype::Q4K => (256, 144, &[0, 2]),
        WeightDtype::Q5K => (256, 176, &[0, 2]),
        WeightDtype::Q6K => (256, 210, &[208]),
    }
}

/// Whether weights are multiplied as f32.
pub(crate) fn is_float(dtype: WeightDtype) -> bool {
    block(dtype).0 == 1 || dtype == WeightDtype::Mxfp4
}

/// A `[rows, columns]` tensor's bytes: any quants, scales of either sign up to 0.05.
pub(crate) fn random_weights(
    dtype: WeightDtype,
    rows: usize,
    columns: usize,
    random: &mut Random,
) -> Vec<u8> {
    let (elements, bytes, halves) = block(dtype);
    assert!(columns.is_multiple_of(elements));
    let mut data = Vec::new();
    for _ in 0..rows * columns / elements {
        let start = data.len();
        match dtype {
            WeightDtype::F32 => data.extend(random.unit().to_le_bytes()),
            WeightDtype::F16 => data.extend(half::f16::from_f32(random.unit()).to_le_bytes()),
            WeightDtype::Bf16 => data.extend(half::bf16::from_f32(random.unit()).to_le_bytes()),
            WeightDtype::Mxfp4 => {
                data.push(118 + (random.bits() % 6) as u8);
                data.extend((1..bytes).map(|_| random.bits() as u8));
            }
            _ => data.extend((0..bytes).map(|_| random.bits() as u8)),
        }
        for offset in halves {
            let scale = half::f16::from_f32(random.unit() * 0.05).to_le_bytes();
            data[start + offset..start + offset + 2].copy_from_slice(&scale);
        }
    }
    data
}

/// MXFP4 as the specification has it, element by element; candle does not read it.
fn mxfp4_reference(data: &[u8]) -> Vec<f32> {
    let elements = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let mut out = Vec::new();
    for block in data.chunks_exact(17) {
        let scale = (f64::from(block[0]) - 127.0).exp2();
        for element in (0..32).map(|k| block[1 + k % 16] >> (4 * (k / 16)) & 15) {
            let magnitude: f64 = elements[usize::from(element & 7)];
            out.push((if element & 8 == 0 { magnitude } else { -magnitude } * scale) as f32);
        }
    }
    out
}

/// What candle makes of the same bytes.
pub(crate) fn reference(dtype: WeightDtype, rows: usize, columns: usize, data: &[u8]) -> Vec<f32> {
    let Some(ggml) = ggml_dtype(dtype) else { return mxfp4_reference(data) };
    let storage = QStorage::from_data(Cow::Borrowed(data), &Device::Cpu, ggml).unwrap();
    let tensor = QTensor::new(storage, (rows, columns)).unwrap();
    tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

pub(crate) fn view(dtype: WeightDtype, rows: usize, columns: usize, data: &[u8]) -> TensorView<'_> {
    TensorView { name: "test.weight", dtype, shape: vec![rows, columns], data }
}

/// A zero may change its sign: a sum of two exact products has one.
fn bits(value: f32) -> u32 {
    (value + 0.0).to_bits()
}

#[test]
fn every_dtype_dequantises_as_candle_does() {
    let mut random = Random(7);
    for dtype in DTYPES {
        for rows in [1, 15, 16, 37] {
            let columns = 512;
            let data = random_weights(dtype, rows, columns, &mut random);
            let expected = reference(dtype, rows, columns, &data);
            let ids: Vec<u32> = (0..rows as u32).rev().collect();
            for set in InstructionSet::available() {
                let backend = backend(1, set);
                let packed = PackedMatrix::pack(&backend, &view(dtype, rows, columns, &data)).unwrap();
                let found = embedding(&backend, &packed, &ids).unwrap();
                let found = F32View::of(&found, "found").unwrap();
                for (found, expected) in found.chunks(columns).rev().zip(expected.chunks(columns)) {
                    let differing = (0..columns).find(|k| bits(found[*k]) != bits(expected[*k]));
                    assert_eq!(differing, None, "{dtype:?}, {rows} rows, {set:?}");
                }
            }
        }
    }
}

/// Scales at both ends of the format's range: the least are denormal in f32.
#[test]
fn mxfp4_scales_reach_from_end_to_end() {
    let mut data = Vec::new();
    for scale in [0, 1, 2, 3, 127, 250, 251] {
        data.extend(std::iter::once(scale).chain((0..16).map(|i| i | (15 - i) << 4)));
    }
    let expected = mxfp4_reference(&data);
    for set in InstructionSet::available() {
        let backend = backend(1, set);
        let packed = PackedMatrix::pack(&backend, &view(WeightDtype::Mxfp4, 7, 32, &data)).unwrap();
        let found = embedding(&backend, &packed, &[0, 1, 2, 3, 4, 5, 6]).unwrap();
        let found = F32View::of(&found, "found").unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(bits(*found), bits(*expected), "{found} for {expected}, {set:?}");
        }
    }
}

#[test]
fn packed_weights_are_hardly_larger_than_the_file() {
    let backend = backend(1, InstructionSet::Portable);
    for dtype in DTYPES {
        let data = random_weights(dtype, 64, 512, &mut Random(1));
        let packed = PackedMatrix::pack(&backend, &view(dtype, 64, 512, &data)).unwrap();
        let ratio = packed.packed_bytes() as f64 / data.len() as f64;
        assert!(ratio <= 1.03, "{dtype:?}: {ratio}");
    }
}

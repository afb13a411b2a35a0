//! The linear layer at the shapes of SmolLM2 135M and Gemma 3 270M, beside crate `gemm` in float32.
//!
//! Criterion's throughput column reads "elements": floating-point operations for `prefill` (Gelem/s are GFLOP/s), weights for
//! `decode` (Gelem/s are billions of weights a second). `LONGWICK_BENCH_THREADS` sets the threads (2), `LONGWICK_ISA` the instructions.
use candle_core::{Device, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use longwick::{
    ops::{Backend, PackedMatrix, linear},
    weights::{TensorView, WeightDtype},
};
use std::{hint::black_box, num::NonZeroUsize, time::Duration};

const ROWS: usize = 512;

fn threads() -> NonZeroUsize {
    let set = std::env::var("LONGWICK_BENCH_THREADS").ok().and_then(|text| text.parse().ok());
    set.unwrap_or(NonZeroUsize::MIN.saturating_add(1))
}

fn numbers(len: usize) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// A block's elements, bytes, and the offsets of its f16 fields.
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

fn pack(backend: &Backend, dtype: WeightDtype, n: usize, k: usize) -> PackedMatrix {
    let (elements, bytes, halves) = block(dtype);
    let data: Vec<u8> = match dtype {
        WeightDtype::F32 => numbers(n * k).iter().flat_map(|number| number.to_le_bytes()).collect(),
        _ => {
            let mut data: Vec<u8> =
                (0..n * k / elements * bytes).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 9) as u8).collect();
            for block in data.chunks_exact_mut(bytes) {
                for offset in halves {
                    block[*offset..offset + 2].copy_from_slice(&half::f16::from_f32(0.01).to_le_bytes());
                }
            }
            data
        }
    };
    let view = TensorView { name: "bench", dtype, shape: vec![n, k], data: &data };
    PackedMatrix::pack(backend, &view).expect("the bench's own tensor packs")
}

fn input(rows: usize, k: usize) -> Tensor {
    Tensor::from_vec(numbers(rows * k), (rows, k), &Device::Cpu).expect("the bench's own shape")
}

/// 512 rows: packed float32, the quantised types of the real models, and `gemm`.
fn prefill(criterion: &mut Criterion) {
    let backend = Backend::cpu(Some(threads())).expect("a backend");
    let mut group = criterion.benchmark_group(format!("prefill/{}", backend.arithmetic()));
    for (k, n) in [(576, 576), (576, 1536), (1536, 576), (576, 192), (640, 2048), (2048, 640), (640, 256)] {
        group.throughput(Throughput::Elements((2 * ROWS * k * n) as u64));
        let x = input(ROWS, k);
        for dtype in [WeightDtype::F32, WeightDtype::Q4_1, WeightDtype::Q5_0] {
            let weights = pack(&backend, dtype, n, k);
            group.bench_function(BenchmarkId::new(format!("{dtype:?}"), format!("{k}x{n}")), |bencher| {
                bencher.iter(|| black_box(linear(&backend, &x, &weights, None).expect("fitting shapes")));
            });
        }
        let (x, weights) = (numbers(ROWS * k), numbers(n * k));
        let mut out = vec![0.0f32; ROWS * n];
        group.bench_function(BenchmarkId::new("gemm-f32", format!("{k}x{n}")), |bencher| {
            bencher.iter(|| multiply_by_gemm(black_box(&mut out), &x, &weights, k, n));
        });
    }
    group.finish();
}

/// `out = x w^T`, `w: [n, k]`, as candle calls it.
fn multiply_by_gemm(out: &mut [f32], x: &[f32], weights: &[f32], k: usize, n: usize) {
    let rows = x.len() / k;
    assert!(out.len() == rows * n && weights.len() == n * k);
    let (k_stride, n_stride) = (k as isize, n as isize);
    // SAFETY: the slices hold rows x n, rows x k and n x k elements, and the strides are row-major.
    unsafe {
        gemm::gemm(
            rows,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n_stride,
            false,
            x.as_ptr(),
            1,
            k_stride,
            weights.as_ptr(),
            k_stride,
            1,
            0.0f32,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::Rayon(threads().get()),
        );
    }
}

/// One row and four rows of every type; the last shapes are vocabulary heads.
fn decode(criterion: &mut Criterion) {
    let backend = Backend::cpu(Some(threads())).expect("a backend");
    let mut group = criterion.benchmark_group(format!("decode/{}", backend.arithmetic()));
    let types = [
        WeightDtype::Q8_0,
        WeightDtype::Q4_0,
        WeightDtype::Q4_1,
        WeightDtype::Q5_0,
        WeightDtype::Q4K,
        WeightDtype::Q5K,
        WeightDtype::Q6K,
        WeightDtype::F16,
        WeightDtype::Bf16,
        WeightDtype::F32,
    ];
    let mut cases: Vec<_> = types.into_iter().map(|dtype| (dtype, 2048, 4096)).collect();
    cases.extend([
        (WeightDtype::Q4_1, 576, 1536),
        (WeightDtype::Q5_0, 640, 2048),
        (WeightDtype::Q4K, 2048, 640),
    ]);
    cases.extend([(WeightDtype::Q8_0, 576, 49_152), (WeightDtype::Q8_0, 640, 262_144)]);
    for (dtype, k, n) in cases {
        let weights = pack(&backend, dtype, n, k);
        for rows in [1, 4] {
            group.throughput(Throughput::Elements((k * n) as u64));
            let x = input(rows, k);
            group.bench_function(
                BenchmarkId::new(format!("{dtype:?}/rows-{rows}"), format!("{k}x{n}")),
                |bencher| {
                    bencher.iter(|| black_box(linear(&backend, &x, &weights, None).expect("fitting shapes")));
                },
            );
        }
    }
    group.finish();
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .without_plots()
}

criterion_group! { name = benches; config = settings(); targets = prefill, decode }
criterion_main!(benches);

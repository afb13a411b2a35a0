//! Paged attention: prefill chunks in GFLOP/s, decode in GB/s of keys and values read.
//!
//! `cargo bench --bench attention [-- FILTER]`, threads by `LONGWICK_BENCH_THREADS`. Each figure is the best of several runs, by the
//! clock and by processor time: the latter also holds while other work shares the machine.
#![allow(clippy::print_stdout, clippy::unwrap_used)]
use candle_core::{Device, Tensor};
use longwick::ops::{
    AttentionInput, Backend, KvArena, KvDtype, KvPageLayout, SequencePages, kv_write, paged_attention,
};
use std::time::Instant;

/// A layer's shape and a piece of work on it.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    q_heads: usize,
    kv_heads: usize,
    dim: usize,
    window: Option<u32>,
    /// Tokens in the cache, the rows' own among them.
    context: usize,
    rows: usize,
}

impl Case {
    /// Keys that row `row` sees.
    fn visible(&self, row: usize) -> usize {
        let position = self.context - self.rows + row;
        self.window.map_or(position + 1, |window| (position + 1).min(window as usize))
    }

    /// Multiply-adds of q.k and p.v over visible keys count two each.
    fn flops(&self) -> f64 {
        let pairs: usize = (0..self.rows).map(|row| self.visible(row)).sum();
        4.0 * (pairs * self.dim * self.q_heads) as f64
    }

    /// Bytes of keys and values that the last row sees.
    fn bytes(&self, dtype: KvDtype) -> f64 {
        let head = self.dim * dtype.element_bytes() + dtype.scale_bytes();
        (2 * self.visible(self.rows - 1) * self.kv_heads * head) as f64
    }
}

/// Values in [-1, 1) that need not be random, only varied.
fn varied(len: usize) -> Vec<f32> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

fn tensor(shape: (usize, usize, usize)) -> Tensor {
    Tensor::from_vec(varied(shape.0 * shape.1 * shape.2), shape, &Device::Cpu).unwrap()
}

/// Seconds of processor time that this process has used, all threads together.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn measure(backend: &Backend, case: &Case, dtype: KvDtype) {
    // As many layers as it takes to leave no cache level warm from one decode step to the next.
    let layers = if case.rows == 1 { 24 } else { 1 };
    let layout = KvPageLayout {
        block_size: 16,
        layers_per_page: layers,
        kv_heads: case.kv_heads,
        head_dim: case.dim,
        dtype,
    };
    let blocks = case.context.div_ceil(16);
    let mut arena = KvArena::new(backend, layout.page_bytes(), blocks).unwrap();
    // Pages out of order, as a pool that has been in use hands them out.
    let pages: Vec<u32> = (0..blocks).map(|block| (block * 7919 % blocks) as u32).collect();
    let slots: Vec<u64> =
        (0..case.context).map(|token| u64::from(pages[token / 16]) * 16 + (token % 16) as u64).collect();
    let kv = tensor((case.context, case.kv_heads, case.dim));
    for layer in 0..layers {
        kv_write(backend, &mut arena, &layout, layer, &kv, &kv, &slots).unwrap();
    }
    let q = tensor((case.rows, case.q_heads, case.dim));
    let positions: Vec<u32> =
        (case.context - case.rows..case.context).map(|position| position as u32).collect();
    let (mut best, mut best_busy) = (f64::INFINITY, f64::INFINITY);
    let begin = Instant::now();
    let mut runs = 0;
    while runs < 3 || begin.elapsed().as_secs_f64() < 0.7 {
        let (start, busy) = (Instant::now(), processor_seconds());
        for layer_in_page in 0..layers {
            let input = AttentionInput {
                q: &q,
                cu_seqlens_q: &[0, case.rows as u32],
                positions: &positions,
                sequences: &[SequencePages { pages: &pages, first_position: 0 }],
                arena: &arena,
                layout: &layout,
                layer_in_page,
                scale: 0.1,
                window: case.window,
                sinks: None,
                soft_cap: None,
                prepared: None,
            };
            std::hint::black_box(paged_attention(backend, &input).unwrap());
        }
        best = best.min(start.elapsed().as_secs_f64() / layers as f64);
        best_busy = best_busy.min((processor_seconds() - busy) / layers as f64);
        runs += 1;
    }
    println!(
        "{:28} {:5?} {:9.1} us {:6.1} GFLOP/s {:5.1} GB/s; a core: {:6.1} GFLOP/s {:5.1} GB/s",
        case.name,
        dtype,
        best * 1e6,
        case.flops() / best / 1e9,
        case.bytes(dtype) / best / 1e9,
        case.flops() / best_busy / 1e9,
        case.bytes(dtype) / best_busy / 1e9,
    );
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let head_64 = Case { name: "", q_heads: 9, kv_heads: 3, dim: 64, window: None, context: 4096, rows: 512 };
    let head_256 = Case { q_heads: 4, kv_heads: 1, dim: 256, ..head_64 };
    let head_128 = Case { q_heads: 16, kv_heads: 8, dim: 128, ..head_64 };
    let cases = [
        Case { name: "prefill 9/3 heads of 64", ..head_64 },
        Case { name: "prefill 4/1 heads of 256", ..head_256 },
        Case { name: "prefill 4/1 x 256 window 512", window: Some(512), ..head_256 },
        Case { name: "prefill 16/8 heads of 128", ..head_128 },
        Case { name: "first 512 9/3 heads of 64", context: 512, ..head_64 },
        Case { name: "first 512 4/1 heads of 256", context: 512, ..head_256 },
        Case { name: "decode 9/3 heads of 64", rows: 1, ..head_64 },
        Case { name: "decode 4/1 heads of 256", rows: 1, ..head_256 },
        Case { name: "decode 4/1 x 256 window 512", rows: 1, window: Some(512), ..head_256 },
        Case { name: "decode 9/3 x 64 at 64", rows: 1, context: 64, ..head_64 },
    ];
    let threads = std::env::var("LONGWICK_BENCH_THREADS").ok().and_then(|count| count.parse().ok());
    let backend = Backend::cpu(threads).unwrap();
    println!("{}, {} threads, context 4096 unless named", backend.arithmetic(), backend.threads());
    for case in
        cases.iter().filter(|case| filter.as_ref().is_none_or(|filter| case.name.contains(filter.as_str())))
    {
        for dtype in KvDtype::ALL {
            measure(&backend, case, dtype);
        }
    }
}

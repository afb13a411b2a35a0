//! Times the attention kernels on a GPU with CUDA events, and prints one JSON row a measurement.
//!
//!   time_kernels [CONTEXT,CONTEXT,...]     default: 8192,32768,131072
//!
//! Each row: what was run, and the milliseconds of its fastest launch. `longwick bench attention --timings FILE` puts the rows beside
//! the least time a card needs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this program is for")]

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, sys};
use longwick_kernels::{
    AttentionPlan, AttentionSequence, AttentionShape, CudaKernels, Dtype, KvLayout, KvPool, PagedAttention,
    PlanView, Stream, View, ViewMut,
};

const BLOCK: usize = 16;
const KV_HEADS: usize = 4;
const GROUP: usize = 8;
const RUNS: usize = 5;
const LAUNCHES: usize = 8;
/// Pools of so many bytes together take turns, so that no launch finds its keys and values in a cache: twice what any card's second
/// level holds.
const TURNING_BYTES: usize = 256 << 20;

/// One measurement: so many queries at the end of each of so many sequences.
#[derive(Clone, Copy)]
struct Case {
    cache: Dtype,
    head_dim: usize,
    context: usize,
    queries: usize,
    branches: usize,
}

impl Case {
    fn phase(&self) -> &'static str {
        match (self.queries, self.branches) {
            (1, 1) => "decode",
            (1, _) => "branches",
            _ => "prefill_chunk",
        }
    }
}

struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    kernels: Arc<CudaKernels>,
}

impl Gpu {
    fn open() -> Result<Self, Box<dyn Error>> {
        let context = CudaContext::new(0)?;
        let kernels = Arc::new(CudaKernels::load(&context)?);
        Ok(Self { stream: context.default_stream(), kernels, context })
    }

    fn address<T>(&self, memory: &CudaSlice<T>) -> u64 {
        // Everything runs on the one stream, so that order alone keeps reads after writes.
        let (address, _guard) = memory.device_ptr(&self.stream);
        address
    }

    /// bf16 elements that differ and stay small.
    fn elements(&self, count: usize) -> Result<CudaSlice<u16>, Box<dyn Error>> {
        let value = |i: usize| {
            let sign = (i as u16 & 1) << 15;
            // Between 1/16 and 1/8: exponent 123, mantissas in turn.
            sign | 123 << 7 | (i.wrapping_mul(2_654_435_761) >> 9) as u16 & 0x7f
        };
        let host: Vec<u16> = (0..count).map(value).collect();
        Ok(self.stream.clone_htod(&host)?)
    }

    /// Milliseconds a launch, of the fastest of some runs after one that warms up. A run is many launches, so that the time that the
    /// host takes for one is hidden behind the card's.
    fn time(&self, mut launch: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f32, Box<dyn Error>> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        launch()?;
        let mut best = f32::INFINITY;
        for _ in 0..RUNS {
            let (start, end) = (self.context.new_event(flags)?, self.context.new_event(flags)?);
            start.record(&self.stream)?;
            for _ in 0..LAUNCHES {
                launch()?;
            }
            end.record(&self.stream)?;
            end.synchronize()?;
            best = best.min(start.elapsed_ms(&end)? / LAUNCHES as f32);
        }
        Ok(best)
    }
}

fn measure(gpu: &Gpu, case: Case) -> Result<f32, Box<dyn Error>> {
    let blocks_each = case.context.div_ceil(BLOCK);
    let shared = (case.context - case.queries) / BLOCK;
    let num_blocks = blocks_each + (case.branches - 1) * (blocks_each - shared);
    let layout = KvLayout::packed(case.cache, num_blocks, BLOCK, KV_HEADS, case.head_dim);
    // As fp8 the same bytes are other numbers, and their scales too: of no matter for the time.
    let pools = TURNING_BYTES.div_ceil(layout.pool_bytes());
    let pool = gpu.elements(pools * layout.pool_bytes() / 2)?;
    let mut turn = 0;
    // Blocks lie scattered, as in a pool that was used for a while.
    let scattered = |index: usize| ((index * 7_919) % num_blocks) as u32;
    let is_permutation = !num_blocks.is_multiple_of(7_919);
    let block = |index: usize| if is_permutation { scattered(index) } else { index as u32 };
    let tables: Vec<Vec<u32>> = (0..case.branches)
        .map(|branch| {
            let own = blocks_each + branch.saturating_sub(1) * (blocks_each - shared);
            let own = if branch == 0 { shared } else { own };
            (0..shared).map(block).chain((0..blocks_each - shared).map(|i| block(own + i))).collect()
        })
        .collect();
    let positions: Vec<u32> = ((case.context - case.queries) as u32..case.context as u32).collect();
    let sequences: Vec<AttentionSequence<'_>> = tables
        .iter()
        .map(|blocks| AttentionSequence { blocks, first_position: 0, positions: &positions })
        .collect();
    let shape = AttentionShape {
        query_dtype: Dtype::Bf16,
        dtype: Dtype::Bf16,
        cache_dtype: case.cache,
        q_heads: KV_HEADS * GROUP,
        kv_heads: KV_HEADS,
        head_dim: case.head_dim,
        block_size: BLOCK,
        window: None,
    };
    let plan = AttentionPlan::new(shape, &sequences)?;
    let elements = plan.num_tokens() * KV_HEADS * GROUP * case.head_dim;
    let words = gpu.stream.clone_htod(plan.words())?;
    let (q, out) = (gpu.elements(elements)?, gpu.stream.alloc_zeros::<u16>(elements)?);
    let workspace = gpu.stream.alloc_zeros::<f32>(plan.workspace_len().max(4))?;
    // SAFETY: all views below lie in memory that lives until `time` has waited for the last launch.
    let mut stream = unsafe { Stream::cuda(gpu.kernels.clone(), gpu.stream.clone()) };
    gpu.time(|| {
        turn = (turn + 1) % pools;
        let pool = gpu.address(&pool) + (turn * layout.pool_bytes()) as u64;
        // SAFETY: as above; each length is that of its slice, and nothing else runs on the device.
        let attention = unsafe {
            PagedAttention {
                q: View::from_raw(gpu.address(&q), elements, Dtype::Bf16),
                cache: KvPool {
                    pool: View::from_raw(pool, layout.pool_bytes(), Dtype::Fp8E4m3),
                    layout: &layout,
                },
                plan: PlanView::copied(&plan, View::from_raw(gpu.address(&words), words.len(), Dtype::U32)),
                scale: 1.0 / (case.head_dim as f32).sqrt(),
                soft_cap: None,
                sinks: None,
                workspace: ViewMut::from_raw(gpu.address(&workspace), workspace.len(), Dtype::F32),
                out: ViewMut::from_raw(gpu.address(&out), elements, Dtype::Bf16),
                log_sum_exp: None,
            }
        };
        Ok(attention.launch(&mut stream)?)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let contexts = std::env::args().nth(1).unwrap_or_else(|| "8192,32768,131072".to_owned());
    let gpu = Gpu::open()?;
    eprintln!("{}", gpu.context.name()?);
    for context in contexts.split(',') {
        let context: usize = context.parse().map_err(|_| format!("{context:?} is no number of tokens"))?;
        for head_dim in [64, 128, 256] {
            for cache in [Dtype::Bf16, Dtype::Fp8E4m3] {
                for (queries, branches) in [(2_048.min(context / 2), 1), (1, 1), (1, 8)] {
                    let case = Case { cache, head_dim, context, queries, branches };
                    let milliseconds = measure(&gpu, case)?;
                    let cache = if cache == Dtype::Bf16 { "bf16" } else { "fp8" };
                    println!(
                        "{{\"program\": \"longwick\", \"phase\": \"{}\", \"cache\": \"{cache}\", \"q_heads\": {}, \
                         \"kv_heads\": {KV_HEADS}, \"head_dim\": {head_dim}, \"context\": {context}, \"queries\": \
                         {queries}, \"branches\": {branches}, \"milliseconds\": {milliseconds}}}",
                        case.phase(),
                        KV_HEADS * GROUP,
                    );
                }
            }
        }
    }
    Ok(())
}

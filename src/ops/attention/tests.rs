//! Attention against a float64 oracle, and bit for bit against itself under every way to batch, chunk, page and split the same work.
use super::*;
use crate::ops::{KvDtype, kv_write, testing::Random};
use candle_core::Device;
use half::bf16;

mod bits;
mod oracle;
mod refusals;

/// What an attention layer is.
#[derive(Clone)]
pub(super) struct Shape {
    block_size: usize,
    kv_heads: usize,
    group: usize,
    dim: usize,
    dtype: KvDtype,
    window: Option<u32>,
    sinks: bool,
    soft_cap: Option<f32>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            block_size: 16,
            kv_heads: 2,
            group: 2,
            dim: 16,
            dtype: KvDtype::F32,
            window: None,
            sinks: false,
            soft_cap: None,
        }
    }
}

impl Shape {
    fn q_heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn layout(&self) -> KvPageLayout {
        KvPageLayout {
            block_size: self.block_size,
            layers_per_page: 2,
            kv_heads: self.kv_heads,
            head_dim: self.dim,
            dtype: self.dtype,
        }
    }

    fn scale(&self) -> f32 {
        1.0 / (self.dim as f32).sqrt()
    }

    fn sinks(&self) -> Option<Vec<f32>> {
        self.sinks.then(|| (0..self.q_heads()).map(|head| 0.7 * head as f32 - 1.0).collect())
    }
}

/// A sequence's queries `[tokens, q_heads, dim]`, keys and values `[tokens, kv_heads, dim]`.
pub(super) struct Sequence {
    tokens: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Sequence {
    fn new(shape: &Shape, tokens: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            tokens,
            q: random.vector(tokens * shape.q_heads() * shape.dim).iter().map(|x| 1.5 * x).collect(),
            k: random.vector(tokens * shape.kv_heads * shape.dim),
            v: random.vector(tokens * shape.kv_heads * shape.dim),
        }
    }
}

/// What lies in pages before anything is written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stale {
    Zero,
    Finite,
    Nan,
}

/// One way to do the same work.
#[derive(Clone)]
pub(super) struct Way {
    backend: Backend,
    /// Tokens of a sequence a call.
    chunk: usize,
    /// Keys and values of the first `prefilled` tokens are written at once; rows are computed from there on.
    prefilled: usize,
    /// All sequences in each call, or one after the other.
    together: bool,
    /// Pages in order, or scattered by this seed.
    scatter: Option<u64>,
    stale: Stale,
    /// Drop blocks behind the window.
    release: bool,
    /// All keys are in the cache before the first row is computed, those of later tokens included.
    keys_first: bool,
}

impl Way {
    fn new(backend: Backend) -> Self {
        Self {
            backend,
            chunk: 64,
            prefilled: 0,
            together: false,
            scatter: None,
            stale: Stale::Zero,
            release: false,
            keys_first: false,
        }
    }
}

fn fill_stale(arena: &mut KvArena, layout: &KvPageLayout, stale: Stale) {
    let mut random = Random::new(99);
    for page in 0..arena.num_pages() as u32 {
        for bytes in arena.page_mut(page).unwrap().chunks_exact_mut(layout.dtype.element_bytes()) {
            let value = match stale {
                Stale::Zero => 0.0,
                Stale::Finite => random.unit() * 3.0e38,
                Stale::Nan => {
                    [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN][random.next() as usize % 4]
                }
            };
            match layout.dtype {
                KvDtype::F32 => bytes.copy_from_slice(&value.to_le_bytes()),
                KvDtype::Bf16 => bytes.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
                // Codes and scales alike: of 0xff bytes, each is NaN.
                KvDtype::Fp8 if stale == Stale::Nan => bytes[0] = 0xff,
                KvDtype::Fp8 => bytes[0] = 0x77,
            }
        }
    }
}

fn write_tokens(
    way: &Way,
    shape: &Shape,
    arena: &mut KvArena,
    sequence: &Sequence,
    pages: &[u32],
    tokens: std::ops::Range<usize>,
) {
    if tokens.is_empty() {
        return;
    }
    let row = shape.kv_heads * shape.dim;
    let tensor = |data: &[f32]| {
        let rows = data[tokens.start * row..tokens.end * row].to_vec();
        Tensor::from_vec(rows, (tokens.len(), shape.kv_heads, shape.dim), &Device::Cpu).unwrap()
    };
    let slots: Vec<u64> = tokens
        .clone()
        .map(|token| {
            u64::from(pages[token / shape.block_size]) * shape.block_size as u64
                + (token % shape.block_size) as u64
        })
        .collect();
    kv_write(&way.backend, arena, &shape.layout(), 1, &tensor(&sequence.k), &tensor(&sequence.v), &slots)
        .unwrap();
}

/// Runs `sequences` the given way; one `[rows from prefilled on, q_heads * dim]` a sequence.
pub(super) fn run(shape: &Shape, sequences: &[Sequence], way: &Way) -> Vec<Vec<f32>> {
    let layout = shape.layout();
    let blocks: Vec<usize> =
        sequences.iter().map(|sequence| sequence.tokens.div_ceil(shape.block_size)).collect();
    let total: usize = blocks.iter().sum::<usize>() + 3;
    let mut arena = KvArena::new(&way.backend, layout.page_bytes() + 64, total).unwrap();
    if way.stale != Stale::Zero {
        fill_stale(&mut arena, &layout, way.stale);
    }
    let order =
        way.scatter.map_or_else(|| (0..total as u32).collect(), |seed| Random::new(seed).shuffled(total));
    let mut order = order.into_iter();
    let tables: Vec<Vec<u32>> = blocks.iter().map(|&count| order.by_ref().take(count).collect()).collect();
    for (sequence, table) in sequences.iter().zip(&tables) {
        let first = if way.keys_first { sequence.tokens } else { way.prefilled.min(sequence.tokens) };
        write_tokens(way, shape, &mut arena, sequence, table, 0..first);
    }
    let mut outputs: Vec<Vec<f32>> = vec![Vec::new(); sequences.len()];
    let groups: Vec<Vec<usize>> = if way.together {
        vec![(0..sequences.len()).collect()]
    } else {
        (0..sequences.len()).map(|index| vec![index]).collect()
    };
    for group in groups {
        let mut done = way.prefilled;
        while group.iter().any(|&index| sequences[index].tokens > done) {
            let parts: Vec<(usize, std::ops::Range<usize>)> = group
                .iter()
                .map(|&index| {
                    (
                        index,
                        done.min(sequences[index].tokens)..(done + way.chunk).min(sequences[index].tokens),
                    )
                })
                .collect();
            for (index, tokens) in &parts {
                if !way.keys_first {
                    write_tokens(way, shape, &mut arena, &sequences[*index], &tables[*index], tokens.clone());
                }
            }
            step(shape, sequences, way, &arena, &tables, &parts, &mut outputs);
            done += way.chunk;
        }
    }
    outputs
}

fn step(
    shape: &Shape,
    sequences: &[Sequence],
    way: &Way,
    arena: &KvArena,
    tables: &[Vec<u32>],
    parts: &[(usize, std::ops::Range<usize>)],
    outputs: &mut [Vec<f32>],
) {
    let row = shape.q_heads() * shape.dim;
    let (mut q, mut positions, mut cu_seqlens_q, mut pages) = (Vec::new(), Vec::new(), vec![0], Vec::new());
    for (index, tokens) in parts {
        q.extend_from_slice(&sequences[*index].q[tokens.start * row..tokens.end * row]);
        positions.extend(tokens.clone().map(|token| token as u32));
        cu_seqlens_q.push(positions.len() as u32);
        let visible = tokens.end.div_ceil(shape.block_size);
        let first_block = match shape.window {
            Some(window) if way.release => {
                (tokens.start + 1).saturating_sub(window as usize) / shape.block_size
            }
            _ => 0,
        };
        let first_block = first_block.min(visible);
        let first_position = (first_block * shape.block_size) as u32;
        pages.push(SequencePages { pages: &tables[*index][first_block..visible], first_position });
    }
    let rows = positions.len();
    let q = Tensor::from_vec(q, (rows, shape.q_heads(), shape.dim), &Device::Cpu).unwrap();
    let sinks = shape.sinks();
    let input = AttentionInput {
        q: &q,
        cu_seqlens_q: &cu_seqlens_q,
        positions: &positions,
        sequences: &pages,
        arena,
        layout: &shape.layout(),
        layer_in_page: 1,
        scale: shape.scale(),
        window: shape.window,
        sinks: sinks.as_deref(),
        soft_cap: shape.soft_cap,
        prepared: None,
    };
    let output = paged_attention(&way.backend, &input).unwrap();
    assert_eq!(output.dims(), [rows, row]);
    let flat = output.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    for (part, (index, _)) in parts.iter().enumerate() {
        let range = cu_seqlens_q[part] as usize * row..cu_seqlens_q[part + 1] as usize * row;
        outputs[*index].extend_from_slice(&flat[range]);
    }
}

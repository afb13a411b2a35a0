//! Sequences in a pool, their attention by the kernels, in float64, and plainly in the element type.
use super::device::{Memory, Order, stream};
use super::{Float, Random, guarded, slots as slots_on_device, unwritten};
use half::{bf16, f16};
use longwick_kernels::{
    AttentionPlan, AttentionSequence, AttentionShape, Dtype, KvLayout, KvPool, KvPoolMut, KvWrite,
    PagedAttention, PlanView, Stream, View, ViewMut,
};
use std::ops::Range;

/// What is attended to, and how.
#[derive(Debug, Clone)]
pub struct Case {
    /// Of the products' operands; queries and outputs may be f32 about narrower ones.
    pub dtype: Dtype,
    pub cached: Dtype,
    pub kv_heads: usize,
    pub group: usize,
    pub head_dim: usize,
    pub block_size: usize,
    pub window: Option<u32>,
    pub has_sinks: bool,
    pub soft_cap: Option<f32>,
    /// Tokens of each sequence.
    pub contexts: Vec<usize>,
    /// Blocks of the pool that no sequence uses, before those that are.
    pub unused_blocks: u32,
    /// Leading tokens that all sequences have in common, in the same blocks.
    pub shared: usize,
}

/// Sequences with keys and values in scattered blocks of a pool that is NaN everywhere else.
pub struct World<T> {
    pub case: Case,
    layout: KvLayout,
    pool: Memory,
    tables: Vec<Vec<u32>>,
    /// Of each sequence: `[context, q_heads, head_dim]`.
    queries: Vec<Vec<T>>,
    sinks: Vec<f32>,
    scale: f32,
}

/// Attention of some rows, `[tokens, q_heads, ...]`.
pub struct Attended<T> {
    pub out: Vec<T>,
    pub log_sum_exp: Vec<f32>,
}

impl<T: Float> World<T> {
    pub fn new(case: Case) -> Self {
        let mut random = Random(case.head_dim as u64 * 31 + case.contexts[0] as u64);
        let blocks_of = |context: &usize| context.div_ceil(case.block_size);
        let unused = case.unused_blocks as usize;
        let num_blocks = unused + case.contexts.iter().map(blocks_of).sum::<usize>() + 3;
        let mut free: Vec<u32> = (unused as u32..num_blocks as u32).collect();
        for i in (1..free.len()).rev() {
            free.swap(i, random.below(i + 1));
        }
        let mut tables: Vec<Vec<u32>> = Vec::new();
        for context in &case.contexts {
            let shared = if tables.is_empty() { 0 } else { case.shared / case.block_size };
            let mut table: Vec<u32> = tables.first().map_or(Vec::new(), |first| first[..shared].to_vec());
            table.extend(free.drain(..blocks_of(context) - shared));
            tables.push(table);
        }
        let layout = KvLayout::packed(case.cached, num_blocks, case.block_size, case.kv_heads, case.head_dim);
        let mut pool = Memory::new(layout.pool_bytes());
        pool.elements_mut::<u8>()[unused * layout.block_stride..].fill(0xff);
        let row = case.kv_heads * case.group * case.head_dim;
        let queries = case.contexts.iter().map(|context| random.elements(context * row, 1.5)).collect();
        let sinks = random.elements(case.kv_heads * case.group, 1.0);
        let scale = 1.0 / (case.head_dim as f32).sqrt();
        let mut world = Self { case, layout, pool, tables, queries, sinks, scale };
        for sequence in 0..world.tables.len() {
            world.write(sequence, &mut random);
        }
        world
    }

    fn write(&mut self, sequence: usize, random: &mut Random) {
        let case = &self.case;
        let first = if sequence == 0 { 0 } else { case.shared };
        let slots: Vec<u64> = (first..case.contexts[sequence])
            .map(|position| {
                let block = self.tables[sequence][position / case.block_size];
                u64::from(block) * case.block_size as u64 + (position % case.block_size) as u64
            })
            .collect();
        let elements = slots.len() * case.kv_heads * case.head_dim;
        let keys = guarded(&random.elements::<T>(elements, 1.5));
        let values = guarded(&random.elements::<T>(elements, 1.0));
        let copied = guarded(&slots);
        let slots = slots_on_device(&slots, &copied);
        KvWrite {
            keys: View::on_host(keys.elements::<T>()),
            values: View::on_host(values.elements::<T>()),
            slots,
            cache: KvPoolMut { pool: ViewMut::on_host(self.pool.elements_mut::<u8>()), layout: &self.layout },
        }
        .launch(&mut stream(Order::Forward))
        .expect("kv_write");
    }

    /// Attends the given query positions of the given sequences, in one step.
    pub fn attend(&self, stream: &mut Stream, step: &[(usize, Range<usize>)]) -> Attended<T> {
        let case = &self.case;
        let positions: Vec<Vec<u32>> =
            step.iter().map(|(_, range)| range.clone().map(|p| p as u32).collect()).collect();
        let mut sequences = Vec::new();
        for ((sequence, range), positions) in step.iter().zip(&positions) {
            // Blocks behind the window are gone, as far as every other sequence is concerned.
            let first_seen =
                case.window.map_or(0, |window| (range.start + 1).saturating_sub(window as usize));
            let released = if sequence % 2 == 1 { first_seen / case.block_size } else { 0 };
            sequences.push(AttentionSequence {
                blocks: &self.tables[*sequence][released..],
                first_position: (released * case.block_size) as u32,
                positions,
            });
        }
        let q_heads = case.kv_heads * case.group;
        let shape = AttentionShape {
            query_dtype: T::DTYPE,
            dtype: case.dtype,
            cache_dtype: case.cached,
            q_heads,
            kv_heads: case.kv_heads,
            head_dim: case.head_dim,
            block_size: case.block_size,
            window: case.window,
        };
        let plan = AttentionPlan::new(shape, &sequences).expect("plan");
        let row = q_heads * case.head_dim;
        let mut queries = Vec::new();
        for (sequence, range) in step {
            queries.extend_from_slice(&self.queries[*sequence][range.start * row..range.end * row]);
        }
        let q = guarded(&queries);
        let sinks = guarded(&self.sinks);
        let mut out = unwritten::<T>(queries.len());
        let mut log_sum_exp = unwritten::<f32>(plan.num_tokens() * q_heads);
        let mut workspace = unwritten::<f32>(plan.workspace_len());
        let words = guarded(plan.words());
        PagedAttention {
            q: View::on_host(q.elements::<T>()),
            cache: KvPool { pool: View::on_host(self.pool.elements::<u8>()), layout: &self.layout },
            // SAFETY: the copy stays as it is until the launch is done.
            plan: unsafe { PlanView::copied(&plan, View::on_host(words.elements::<u32>())) },
            scale: self.scale,
            soft_cap: case.soft_cap,
            sinks: case.has_sinks.then(|| View::on_host(sinks.elements::<f32>())),
            workspace: ViewMut::on_host(workspace.elements_mut::<f32>()),
            out: ViewMut::on_host(out.elements_mut::<T>()),
            log_sum_exp: Some(ViewMut::on_host(log_sum_exp.elements_mut::<f32>())),
        }
        .launch(stream)
        .expect("paged_attention");
        Attended { out: out.elements().to_vec(), log_sum_exp: log_sum_exp.elements().to_vec() }
    }

    /// A cached head as the pool holds it; `side` 0 is the key, 1 the value.
    fn stored(&self, sequence: usize, position: usize, head: usize, side: usize) -> Vec<f64> {
        let layout = &self.layout;
        let block = self.tables[sequence][position / layout.block_size] as usize * layout.block_stride;
        let place = position % layout.block_size;
        let bytes = self.pool.elements::<u8>();
        let width = layout.dtype.bytes();
        let start = block + [layout.keys, layout.values][side] + head * layout.head_stride;
        let row = &bytes[start + place * layout.head_dim * width..][..layout.head_dim * width];
        let scale = layout.scales.as_ref().map_or(1.0, |scales| {
            let at = block + [scales.keys, scales.values][side] + head * scales.head_stride + 4 * place;
            f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
        });
        row.chunks(width).map(|bytes| element(layout.dtype, bytes) * f64::from(scale)).collect()
    }

    /// The keys (or values) of a kv head that a position sees.
    fn seen(&self, sequence: usize, head: usize, position: usize, side: usize) -> Vec<Vec<f64>> {
        let window = self.case.window.map_or(usize::MAX, |window| window as usize);
        let first = (position + 1).saturating_sub(window);
        (first..=position).map(|key| self.stored(sequence, key, head, side)).collect()
    }

    /// The step in float64: outputs and log-sum-exps.
    pub fn oracle(&self, step: &[(usize, Range<usize>)]) -> (Vec<f64>, Vec<f64>) {
        self.by_row(step, |query, keys, values, sink| {
            let scores: Vec<f64> = keys
                .iter()
                .map(|key| {
                    let product: f64 = query.iter().zip(key).map(|(q, k)| f64::from(q.f32()) * k).sum();
                    let score = product * f64::from(self.scale);
                    self.case.soft_cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
                })
                .collect();
            let sink = sink.map(f64::from);
            let maximum = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - maximum).exp()).collect();
            let total = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - maximum).exp());
            let mut out = vec![0.0; query.len()];
            for (weight, value) in weights.iter().zip(values) {
                out.iter_mut().zip(value).for_each(|(sum, v)| *sum += weight / total * v);
            }
            (out, maximum + total.ln())
        })
    }

    /// The step as written down, each operation's result rounded to the products' type, sums in f32.
    pub fn plain(&self, step: &[(usize, Range<usize>)]) -> (Vec<T>, Vec<f32>) {
        let round = |x: f32| match self.case.dtype {
            Dtype::Bf16 => bf16::from_f32(x).to_f32(),
            Dtype::F16 => f16::from_f32(x).to_f32(),
            _ => x,
        };
        self.by_row(step, |query, keys, values, sink| {
            let scores: Vec<f32> = keys
                .iter()
                .map(|key| {
                    let product: f32 =
                        query.iter().zip(key).map(|(q, k)| round(q.f32()) * round(*k as f32)).sum();
                    let score = round(product * self.scale);
                    self.case.soft_cap.map_or(score, |cap| round(cap * round((score / cap).tanh())))
                })
                .collect();
            let maximum = scores.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f32> = scores.iter().map(|score| (score - maximum).exp()).collect();
            let total = weights.iter().sum::<f32>() + sink.map_or(0.0, |sink| (sink - maximum).exp());
            let mut out = vec![0f32; query.len()];
            for (weight, value) in weights.iter().zip(values) {
                let weight = round(weight / total);
                out.iter_mut().zip(value).for_each(|(sum, v)| *sum += weight * round(*v as f32));
            }
            (out.into_iter().map(T::of).collect(), maximum + total.ln())
        })
    }

    fn by_row<O, L>(
        &self,
        step: &[(usize, Range<usize>)],
        attend: impl Fn(&[T], &[Vec<f64>], &[Vec<f64>], Option<f32>) -> (Vec<O>, L),
    ) -> (Vec<O>, Vec<L>) {
        let (mut out, mut log_sum_exp) = (Vec::new(), Vec::new());
        let dim = self.case.head_dim;
        for (sequence, range) in step {
            for position in range.clone() {
                for kv_head in 0..self.case.kv_heads {
                    let keys = self.seen(*sequence, kv_head, position, 0);
                    let values = self.seen(*sequence, kv_head, position, 1);
                    for head in kv_head * self.case.group..(kv_head + 1) * self.case.group {
                        let row = position * self.case.kv_heads * self.case.group + head;
                        let query = &self.queries[*sequence][row * dim..(row + 1) * dim];
                        let sink = self.case.has_sinks.then_some(self.sinks[head]);
                        let (row, total) = attend(query, &keys, &values, sink);
                        out.extend(row);
                        log_sum_exp.push(total);
                    }
                }
            }
        }
        (out, log_sum_exp)
    }
}

fn element(dtype: Dtype, bytes: &[u8]) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
        Dtype::Bf16 => bf16::from_le_bytes(bytes.try_into().expect("two bytes")).to_f64(),
        Dtype::F16 => f16::from_le_bytes(bytes.try_into().expect("two bytes")).to_f64(),
        _ => super::fp8_value(bytes[0]),
    }
}

use super::*;
use crate::ops::{
    RecurrentShape, STATE_CHUNK, StateLayout, StateSlots,
    testing::{Random, assert_within_twice_plain, backends, bits},
};
use candle_core::Device;

/// One sequence's inputs.
struct Case {
    shape: RecurrentShape,
    tokens: usize,
    qkv: Vec<f32>,
    beta: Vec<f32>,
    decay: Vec<f32>,
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
}

fn shape(key_heads: usize, value_heads: usize, key_dim: usize, value_dim: usize) -> RecurrentShape {
    RecurrentShape { key_heads, value_heads, key_dim, value_dim, conv_kernel: 4, value_heads_in_turn: false }
}

/// Value heads dealt out to key heads in turn.
fn in_turn(shape: RecurrentShape) -> RecurrentShape {
    RecurrentShape { value_heads_in_turn: true, ..shape }
}

impl Case {
    fn new(shape: RecurrentShape, tokens: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let heads = shape.value_heads;
        Self {
            shape,
            tokens,
            qkv: random.vector(tokens * shape.channels()),
            beta: random.vector(tokens * heads),
            decay: random.vector(tokens * heads).iter().map(|x| 2.0 * x - 2.0).collect(),
            a_log: (0..heads).map(|_| random.unit() * 2.0).collect(),
            dt_bias: (0..heads).map(|_| random.unit()).collect(),
        }
    }

    fn tensor(&self, data: &[f32], rows: &std::ops::Range<usize>) -> Tensor {
        let width = data.len() / self.tokens;
        let data = &data[rows.start * width..rows.end * width];
        Tensor::from_slice(data, (rows.len(), width), &Device::Cpu).unwrap()
    }

    fn call(
        &self,
        backend: &Backend,
        rows: std::ops::Range<usize>,
        batch: &RecurrentBatch<'_>,
        arena: &mut KvArena,
    ) -> Result<Tensor, OpError> {
        let vector = |data: &[f32]| Tensor::from_slice(data, data.len(), &Device::Cpu).unwrap();
        let input = GatedDeltaInput {
            qkv: &self.tensor(&self.qkv, &rows),
            beta: &self.tensor(&self.beta, &rows),
            decay: &self.tensor(&self.decay, &rows),
            a_log: &vector(&self.a_log),
            dt_bias: &vector(&self.dt_bias),
        };
        gated_delta(backend, &input, batch, arena)
    }

    /// The rule token by token, in one precision.
    fn recurrence<T: Real>(&self) -> Vec<T> {
        let shape = &self.shape;
        let (key_dim, value_dim) = (shape.key_dim, shape.value_dim);
        let mut output = vec![T::of(0.0); self.tokens * shape.value_heads * value_dim];
        for head in 0..shape.value_heads {
            let key_head = match shape.value_heads_in_turn {
                true => head % shape.key_heads,
                false => head / (shape.value_heads / shape.key_heads),
            };
            let mut state = vec![T::of(0.0); key_dim * value_dim];
            for token in 0..self.tokens {
                let row = &self.qkv[token * shape.channels()..(token + 1) * shape.channels()];
                let unit = |place: usize| -> Vec<T> {
                    let x: Vec<T> =
                        row[place * key_dim..(place + 1) * key_dim].iter().map(|&x| T::of(x)).collect();
                    let squares = x.iter().fold(T::of(0.0), |sum, &x| sum + x * x);
                    let length = (squares + T::of(1e-6)).sqrt();
                    x.iter().map(|&x| x / length).collect()
                };
                let (query, key) = (unit(key_head), unit(shape.key_heads + key_head));
                let values = &row[2 * shape.key_heads * key_dim + head * value_dim..][..value_dim];
                let place = token * shape.value_heads + head;
                let x = T::of(self.decay[place]) + T::of(self.dt_bias[head]);
                let g = T::of(0.0) - T::of(self.a_log[head]).exp() * (T::of(1.0) + x.exp()).ln();
                let beta = T::of(1.0) / (T::of(1.0) + (T::of(0.0) - T::of(self.beta[place])).exp());
                for s in &mut state {
                    *s = *s * g.exp();
                }
                for (v, &value) in values.iter().enumerate() {
                    let read =
                        (0..key_dim).fold(T::of(0.0), |sum, d| sum + key[d] * state[d * value_dim + v]);
                    let update = beta * (T::of(value) - read);
                    for d in 0..key_dim {
                        state[d * value_dim + v] = state[d * value_dim + v] + key[d] * update;
                    }
                    let read =
                        (0..key_dim).fold(T::of(0.0), |sum, d| sum + query[d] * state[d * value_dim + v]);
                    output[place * value_dim + v] = read / T::of(key_dim as f32).sqrt();
                }
            }
        }
        output
    }
}

/// What the rule needs of a number.
trait Real:
    Copy
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
{
    fn of(value: f32) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            fn of(value: f32) -> Self {
                value.into()
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn ln(self) -> Self {
                self.ln()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
        }
    };
}

real!(f32);
real!(f64);

/// An arena whose slots hold NaN, so that whatever is read unwritten shows.
fn arena(backend: &Backend, layout: &StateLayout, slots: usize) -> KvArena {
    let mut arena = KvArena::new(backend, 64, 1).unwrap().with_slots(layout.slot_bytes(), slots).unwrap();
    for slot in 0..slots {
        arena.slot_mut(slot as u32).unwrap().fill(0xFF);
    }
    arena
}

/// Runs a case cut into steps of the given lengths (repeated), the state at times in place and at times in another slot,
/// with a snapshot at each multiple of 64; the output, and the last state with the snapshots.
fn run(backend: &Backend, case: &Case, cuts: &[usize]) -> (Vec<f32>, Vec<Vec<u8>>) {
    let layout = StateLayout { shape: case.shape, layers: 2 };
    let snapshots = case.tokens / STATE_CHUNK;
    let mut arena = arena(backend, &layout, 3 + snapshots);
    let mut output = Vec::new();
    let (mut start, mut source) = (0, None);
    for (step, &cut) in cuts.iter().cycle().enumerate() {
        let end = case.tokens.min(start + cut);
        let (done, last) = (start / STATE_CHUNK, end / STATE_CHUNK);
        let mut targets: Vec<(u32, u32)> =
            (done + 1..last).map(|chunk| ((chunk * STATE_CHUNK) as u32, (2 + chunk) as u32)).collect();
        if last > done {
            let other = u32::from(source == Some(0));
            let slot = source.filter(|_| step % 2 == 0).unwrap_or(other);
            targets.push(((last * STATE_CHUNK) as u32, slot));
        }
        let slots = [StateSlots { source, targets, pending: 2 }];
        let positions: Vec<u32> = (start as u32..end as u32).collect();
        let batch = RecurrentBatch {
            cu_seqlens: &[0, positions.len() as u32],
            positions: &positions,
            sequences: &slots,
            layout: &layout,
            layer_in_slot: 1,
        };
        let rows = case.call(backend, start..end, &batch, &mut arena).unwrap();
        output.extend(rows.flatten_all().unwrap().to_vec1::<f32>().unwrap());
        if let Some(&(position, slot)) = slots[0].targets.last() {
            source = Some(slot);
            let chunk = position / STATE_CHUNK as u32;
            arena.copy_slots(&[(slot, 2 + chunk)]).unwrap();
        }
        start = end;
        if start == case.tokens {
            break;
        }
    }
    let states = (0..snapshots).map(|chunk| {
        let slot = arena.slot(3 + chunk as u32).unwrap();
        let layer = layout.layer_elements() * size_of::<f32>();
        slot[layer..layer + case.shape.state_tail() * 4].to_vec()
    });
    let states = states.collect();
    (output, states)
}

#[test]
fn matches_the_oracle_at_shapes_around_the_lanes() {
    let shapes = [
        shape(1, 1, 16, 16),
        shape(2, 4, 16, 24),
        shape(3, 3, 40, 80),
        shape(2, 4, 128, 128),
        shape(1, 3, 1, 8),
        in_turn(shape(2, 6, 16, 24)),
        in_turn(shape(3, 3, 16, 16)),
    ];
    for (seed, shape) in shapes.into_iter().enumerate() {
        for tokens in [1, 63, 64, 65, 200] {
            let case = Case::new(shape, tokens, seed as u64);
            let (exact, plain) = (case.recurrence::<f64>(), case.recurrence::<f32>());
            for backend in backends() {
                let (ours, _) = run(&backend, &case, &[tokens]);
                let label = format!("{shape:?}, {tokens} tokens, {}", backend.arithmetic());
                assert_within_twice_plain(&ours, &plain, &exact, &label);
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_cuts_threads_or_lanes() {
    let shapes =
        [shape(2, 4, 16, 24), shape(2, 2, 128, 128), shape(1, 3, 40, 16), in_turn(shape(2, 4, 16, 24))];
    for (seed, shape) in shapes.into_iter().enumerate() {
        let case = Case::new(shape, 333, 10 + seed as u64);
        let portable = &backends()[0];
        let expected = run(portable, &case, &[333]);
        assert_eq!(expected.1.len(), 5);
        for backend in backends() {
            for cuts in [&[1][..], &[7], &[16], &[64], &[300], &[63, 1, 65, 2], &[128, 5]] {
                let found = run(&backend, &case, cuts);
                let label = format!("{shape:?}, steps of {cuts:?}, {}", backend.arithmetic());
                assert_eq!(bits(&found.0), bits(&expected.0), "{label}");
                assert!(found.1 == expected.1, "states, {label}");
            }
        }
    }
}

#[test]
fn a_sequence_does_not_depend_on_the_others() {
    let shape = shape(2, 4, 32, 32);
    let (first, second) = (Case::new(shape, 150, 21), Case::new(shape, 150, 22));
    for backend in backends() {
        let alone = [run(&backend, &first, &[70, 80]).0, run(&backend, &second, &[70, 80]).0].concat();
        let layout = StateLayout { shape, layers: 1 };
        let mut arena = arena(&backend, &layout, 4);
        let joined = |a: &[f32], b: &[f32], rows: &std::ops::Range<usize>| {
            let width = a.len() / 150;
            let part = |data: &[f32]| data[rows.start * width..rows.end * width].to_vec();
            Tensor::from_vec([part(a), part(b)].concat(), (2 * rows.len(), width), &Device::Cpu).unwrap()
        };
        // Both share the parameters of the first.
        let second =
            Case { a_log: first.a_log.clone(), dt_bias: first.dt_bias.clone(), ..second_of(&second) };
        let alone = [&alone[..alone.len() / 2], &run(&backend, &second, &[70, 80]).0].concat();
        let vector = |data: &[f32]| Tensor::from_slice(data, data.len(), &Device::Cpu).unwrap();
        let mut found = [Vec::new(), Vec::new()];
        for (rows, sources, target) in [(0..70, [None, None], 64), (70..150, [Some(0), Some(1)], 128)] {
            let slots = [0, 1].map(|index| StateSlots {
                source: sources[index],
                targets: vec![(target, index as u32)],
                pending: 2 + index as u32,
            });
            let positions: Vec<u32> = rows.clone().chain(rows.clone()).map(|row| row as u32).collect();
            let batch = RecurrentBatch {
                cu_seqlens: &[0, rows.len() as u32, 2 * rows.len() as u32],
                positions: &positions,
                sequences: &slots,
                layout: &layout,
                layer_in_slot: 0,
            };
            let input = GatedDeltaInput {
                qkv: &joined(&first.qkv, &second.qkv, &rows),
                beta: &joined(&first.beta, &second.beta, &rows),
                decay: &joined(&first.decay, &second.decay, &rows),
                a_log: &vector(&first.a_log),
                dt_bias: &vector(&first.dt_bias),
            };
            let output = gated_delta(&backend, &input, &batch, &mut arena).unwrap();
            let output = output.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            for (found, half) in found.iter_mut().zip(output.chunks(output.len() / 2)) {
                found.extend_from_slice(half);
            }
        }
        assert_eq!(bits(&found.concat()), bits(&alone), "{}", backend.arithmetic());
    }
}

fn second_of(case: &Case) -> Case {
    Case {
        shape: case.shape,
        tokens: case.tokens,
        qkv: case.qkv.clone(),
        beta: case.beta.clone(),
        decay: case.decay.clone(),
        a_log: Vec::new(),
        dt_bias: Vec::new(),
    }
}

/// Extreme decays: a state that vanishes at once, and one that stays.
#[test]
fn extreme_gates_stay_finite() {
    let mut case = Case::new(shape(1, 2, 16, 16), 130, 31);
    for (index, decay) in case.decay.iter_mut().enumerate() {
        *decay = [80.0, -90.0, 1e30, 0.0][index % 4];
    }
    for backend in backends() {
        let (output, _) = run(&backend, &case, &[130]);
        assert!(output.iter().all(|value| value.is_finite()), "{}", backend.arithmetic());
        assert_eq!(bits(&output), bits(&run(&backend, &case, &[9]).0));
    }
}

#[test]
fn slots_that_do_not_fit_are_refused() {
    let backend = &backends()[0];
    let case = Case::new(shape(1, 1, 16, 16), 70, 41);
    let layout = StateLayout { shape: case.shape, layers: 1 };
    let positions: Vec<u32> = (0..70).collect();
    let slots =
        |source, targets: &[(u32, u32)], pending| StateSlots { source, targets: targets.to_vec(), pending };
    for (sequence, argument) in [
        (slots(None, &[(64, 0)], 0), "slots"),
        (slots(None, &[(64, 0)], 3), "slots"),
        (slots(None, &[], 1), "targets"),
        (slots(None, &[(128, 0)], 1), "targets"),
        (slots(None, &[(63, 0)], 1), "targets"),
        (slots(Some(0), &[(64, 0)], 1), "source"),
    ] {
        let mut arena = arena(backend, &layout, 3);
        let batch = RecurrentBatch {
            cu_seqlens: &[0, 70],
            positions: &positions,
            sequences: std::slice::from_ref(&sequence),
            layout: &layout,
            layer_in_slot: 0,
        };
        match case.call(backend, 0..70, &batch, &mut arena) {
            Err(OpError::Value { argument: found, .. } | OpError::Index { argument: found, .. }) => {
                assert_eq!(found, argument, "{sequence:?}");
            }
            other => panic!("{sequence:?}: {other:?}"),
        }
    }
}

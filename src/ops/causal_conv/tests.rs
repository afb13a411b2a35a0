use super::*;
use crate::ops::{
    RecurrentShape, STATE_CHUNK, StateLayout, StateSlots,
    testing::{Random, assert_within_twice_plain, backends, bits},
};
use candle_core::Device;

fn shape(conv_kernel: usize) -> RecurrentShape {
    RecurrentShape {
        key_heads: 1,
        value_heads: 3,
        key_dim: 7,
        value_dim: 9,
        conv_kernel,
        value_heads_in_turn: false,
    }
}

fn exact(x: &[f32], weight: &[f32], channels: usize, kernel: usize) -> (Vec<f64>, Vec<f32>) {
    let tokens = x.len() / channels;
    let (mut exact, mut plain) = (Vec::new(), Vec::new());
    for token in 0..tokens {
        for channel in 0..channels {
            let terms = (0..kernel).filter_map(|j| {
                let row = (token + j + 1).checked_sub(kernel)?;
                Some((x[row * channels + channel], weight[j * channels + channel]))
            });
            let sum: f64 = terms.clone().map(|(x, w)| f64::from(x) * f64::from(w)).sum();
            exact.push(sum / (1.0 + (-sum).exp()));
            let sum: f32 = terms.map(|(x, w)| x * w).sum();
            plain.push(sum / (1.0 + (-sum).exp()));
        }
    }
    (exact, plain)
}

/// Runs one sequence in steps of `cut` tokens, its state alternating between two slots that hold NaN at first.
fn run(backend: &Backend, x: &[f32], weight: &[f32], kernel: usize, cut: usize) -> Vec<f32> {
    let layout = StateLayout { shape: shape(kernel), layers: 2 };
    let channels = layout.shape.channels();
    let tokens = x.len() / channels;
    let mut arena = KvArena::new(backend, 64, 1).unwrap().with_slots(layout.slot_bytes(), 3).unwrap();
    for slot in 0..3 {
        arena.slot_mut(slot).unwrap().fill(0xFF);
    }
    let weight = Tensor::from_slice(weight, (kernel, channels), &Device::Cpu).unwrap();
    let mut output = Vec::new();
    let mut source = None;
    for start in (0..tokens).step_by(cut) {
        let end = tokens.min(start + cut);
        let last = end / STATE_CHUNK;
        let other = u32::from(source == Some(0));
        let passes = last > start / STATE_CHUNK;
        let targets = if passes { vec![((last * STATE_CHUNK) as u32, other)] } else { Vec::new() };
        let slots = [StateSlots { source, targets, pending: 2 }];
        let positions: Vec<u32> = (start as u32..end as u32).collect();
        let batch = RecurrentBatch {
            cu_seqlens: &[0, positions.len() as u32],
            positions: &positions,
            sequences: &slots,
            layout: &layout,
            layer_in_slot: 1,
        };
        let rows = &x[start * channels..end * channels];
        let rows = Tensor::from_slice(rows, (end - start, channels), &Device::Cpu).unwrap();
        let rows = causal_conv(backend, &rows, &weight, &batch, &mut arena).unwrap();
        output.extend(rows.flatten_all().unwrap().to_vec1::<f32>().unwrap());
        if passes {
            source = Some(other);
            // The pending slot is somebody else's after a multiple of 64: the tail must come from the state.
            if end.is_multiple_of(STATE_CHUNK) {
                arena.slot_mut(2).unwrap().fill(0xFF);
            }
        }
    }
    output
}

#[test]
fn matches_the_oracle_and_does_not_depend_on_cuts_threads_or_lanes() {
    for kernel in [2, 4, 7] {
        let channels = shape(kernel).channels();
        let mut random = Random::new(kernel as u64);
        let x = random.vector(200 * channels);
        let weight = random.vector(kernel * channels);
        let (exact, plain) = exact(&x, &weight, channels, kernel);
        let expected = run(&backends()[0], &x, &weight, kernel, 200);
        for backend in backends() {
            assert_within_twice_plain(&expected, &plain, &exact, &format!("kernel {kernel}"));
            for cut in [1, 2, 7, 16, 63, 64, 65, 128, 200] {
                let found = run(&backend, &x, &weight, kernel, cut);
                let label = format!("kernel {kernel}, steps of {cut}, {}", backend.arithmetic());
                assert_eq!(bits(&found), bits(&expected), "{label}");
            }
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let backend = &backends()[0];
    let layout = StateLayout { shape: shape(4), layers: 1 };
    let channels = layout.shape.channels();
    let mut arena = KvArena::new(backend, 64, 1).unwrap().with_slots(layout.slot_bytes(), 1).unwrap();
    let slots = [StateSlots { source: None, targets: Vec::new(), pending: 0 }];
    let tensor = |rows: usize, width: usize| {
        Tensor::from_vec(vec![0.0_f32; rows * width], (rows, width), &Device::Cpu).unwrap()
    };
    let mut refused = |x: Tensor, weight: Tensor, positions: &[u32], layer_in_slot| {
        let cu_seqlens = [0, positions.len() as u32];
        let batch = RecurrentBatch {
            cu_seqlens: &cu_seqlens,
            positions,
            sequences: &slots,
            layout: &layout,
            layer_in_slot,
        };
        match causal_conv(backend, &x, &weight, &batch, &mut arena) {
            Err(OpError::Shape { argument, .. } | OpError::Value { argument, .. }) => argument,
            other => panic!("{other:?}"),
        }
    };
    let (x, weight) = (tensor(2, channels), tensor(4, channels));
    assert_eq!(refused(tensor(2, channels + 1), weight.clone(), &[0, 1], 0), "x");
    assert_eq!(refused(x.clone(), tensor(3, channels), &[0, 1], 0), "weight");
    assert_eq!(refused(x.clone(), weight.clone(), &[0], 0), "positions");
    assert_eq!(refused(x.clone(), weight.clone(), &[0, 2], 0), "positions");
    assert_eq!(refused(x, weight, &[0, 1], 1), "layer_in_slot");
}

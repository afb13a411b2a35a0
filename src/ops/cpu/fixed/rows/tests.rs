use super::*;
use crate::ops::{InstructionSet, cpu::simd::dispatch};

fn round(x: &[f32], set: InstructionSet) -> (Vec<i16>, Vec<f32>, Vec<f32>) {
    let blocks = x.len() / FIXED_BLOCK;
    let mut buffer = FixedBuffer::default();
    buffer.reserve(blocks);
    dispatch(set, Round { x, blocks: 0..blocks, out: &buffer.output() });
    (buffer.values, buffer.scales, buffer.sums)
}

#[test]
fn rounds_to_sixteen_bits_under_a_power_of_two() {
    let mut x = [0.0f32; 4 * FIXED_BLOCK];
    x[..4].copy_from_slice(&[3.0, -1.5, 1.0 / 8192.0, 3.0 / 16_384.0]);
    x[FIXED_BLOCK] = 1.0 - f32::EPSILON / 2.0;
    x[FIXED_BLOCK + 1] = -x[FIXED_BLOCK];
    x[2 * FIXED_BLOCK] = 1e-36;
    for set in InstructionSet::available() {
        let (values, scales, sums) = round(&x, set);
        // 3 lies in 2..4, so a unit is 2^-13; half units go to the even neighbour.
        assert_eq!(values[..4], [24_576, -12_288, 1, 2], "{set:?}");
        assert_eq!((scales[0], sums[0]), (2f32.powi(-13), 12_291.0 * 2f32.powi(-13)), "{set:?}");
        // What rounds up to 2^15 stays within sixteen bits; its negative needs no such care.
        assert_eq!(values[FIXED_BLOCK..FIXED_BLOCK + 2], [i16::MAX, i16::MIN], "{set:?}");
        // Too small for a scale, and nothing at all.
        assert_eq!((scales[2], sums[2], scales[3], sums[3]), (0.0, 0.0, 0.0, 0.0), "{set:?}");
        assert!(values[2 * FIXED_BLOCK..].iter().all(|value| *value == 0), "{set:?}");
    }
}

#[test]
fn the_smallest_and_greatest_scales_are_normal_numbers() {
    for set in InstructionSet::available() {
        for greatest in [2f32.powi(-112), f32::MAX] {
            let mut x = [0.0; FIXED_BLOCK];
            x[7] = greatest;
            let (values, scales, _) = round(&x, set);
            assert!(scales[0].is_normal() && values[7] >= 1 << 14, "{set:?}");
            assert!((f32::from(values[7]) * scales[0] / greatest - 1.0).abs() < 1e-4, "{set:?}");
        }
    }
}

#[test]
fn a_block_that_is_not_finite_has_no_scale() {
    for set in InstructionSet::available() {
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            let mut x = [1.0; 2 * FIXED_BLOCK];
            x[FIXED_BLOCK + 20] = poison;
            let (_, scales, sums) = round(&x, set);
            assert!(scales[0].is_finite() && sums[0] == 32.0, "{set:?}");
            assert!(scales[1].is_nan() && sums[1].is_nan(), "{set:?}");
        }
    }
}

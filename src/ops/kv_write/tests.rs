use super::*;
use crate::ops::{
    KvDtype,
    testing::{Random, backends, fp8_scale},
};
use candle_core::{DType, Device};
use float8::F8E4M3;
use half::bf16;

fn layout(dtype: KvDtype) -> KvPageLayout {
    KvPageLayout { block_size: 32, layers_per_page: 2, kv_heads: 3, head_dim: 24, dtype }
}

/// A head as pages keep it: its elements' bytes, and its scale's.
fn stored(dtype: KvDtype, head: &[f32]) -> (Vec<Vec<u8>>, Option<[u8; 4]>) {
    let scale = fp8_scale(head);
    let element = |&x: &f32| match dtype {
        KvDtype::F32 => x.to_le_bytes().to_vec(),
        KvDtype::Bf16 => bf16::from_f32(x).to_le_bytes().to_vec(),
        KvDtype::Fp8 => vec![F8E4M3::from_f32(x / scale).to_bits()],
    };
    (head.iter().map(element).collect(), (dtype == KvDtype::Fp8).then(|| scale.to_le_bytes()))
}

#[test]
fn elements_lie_where_the_layout_says_and_nothing_else_is_touched() {
    for dtype in KvDtype::ALL {
        for backend in backends() {
            let layout = layout(dtype);
            let mut arena = KvArena::new(&backend, layout.page_bytes(), 40).unwrap();
            let tokens = 700;
            let slots: Vec<u64> =
                Random::new(4).shuffled(40 * 32).into_iter().take(tokens).map(u64::from).collect();
            let mut random = Random::new(5);
            let (keys, values) = (random.vector(tokens * 72), random.vector(tokens * 72));
            let tensor = |data: &[f32]| Tensor::from_slice(data, (tokens, 3, 24), &Device::Cpu).unwrap();
            kv_write(&backend, &mut arena, &layout, 1, &tensor(&keys), &tensor(&values), &slots).unwrap();
            let mut pages = vec![vec![0_u8; layout.page_bytes()]; 40];
            let element = dtype.element_bytes();
            // Keys, values with rows of 24 padded to 32, the scales of both.
            let head_bytes = 32 * (24 + 32) * element + 2 * 32 * dtype.scale_bytes();
            for (token, &slot) in slots.iter().enumerate() {
                let (page, place) = (&mut pages[(slot / 32) as usize], (slot % 32) as usize);
                for head in 0..3 {
                    let source = (token * 3 + head) * 24;
                    let page = &mut page[(3 + head) * head_bytes..][..head_bytes];
                    for (part, data) in [&keys, &values].into_iter().enumerate() {
                        let (elements, scale) = stored(dtype, &data[source..source + 24]);
                        for (d, bytes) in elements.iter().enumerate() {
                            let key = place / 16 * 16 * 24 + d * 16 + place % 16;
                            let index = if part == 0 { key } else { 32 * 24 + place * 32 + d };
                            page[index * element..][..element].copy_from_slice(bytes);
                        }
                        if let Some(scale) = scale {
                            let scales = 32 * (24 + 32) + 32 * 4 * part;
                            page[scales + place * 4..][..4].copy_from_slice(&scale);
                        }
                    }
                }
            }
            for (number, page) in pages.iter().enumerate() {
                assert!(arena.page(number as u32).unwrap() == page.as_slice(), "{dtype}, page {number}");
            }
        }
    }
}

#[test]
fn heads_that_fp8_has_no_steps_for_stay_zero_or_not_a_number() {
    let layout = layout(KvDtype::Fp8);
    for backend in backends() {
        let mut arena = KvArena::new(&backend, layout.page_bytes(), 1).unwrap();
        let mut keys = vec![1.0_f32; 72];
        keys[..24].fill(0.0);
        keys[1] = 1e-44;
        keys[24] = f32::NAN;
        keys[48] = f32::INFINITY;
        let keys = Tensor::from_vec(keys, (1, 3, 24), &Device::Cpu).unwrap();
        kv_write(&backend, &mut arena, &layout, 0, &keys, &keys, &[0]).unwrap();
        let page = arena.page(0).unwrap();
        assert!(page[..layout.key_scales_offset()].iter().all(|&code| code == 0));
        for scales in [layout.key_scales_offset(), layout.value_scales_offset()] {
            let scale = |head: usize| {
                let bytes = &page[layout.head_offset(0, head) + scales..][..4];
                f32::from_le_bytes(bytes.try_into().unwrap())
            };
            assert_eq!(scale(0), 1.0);
            assert!(scale(1).is_nan() && scale(2).is_nan());
        }
    }
}

#[test]
fn the_later_token_of_a_slot_stays() {
    let backend = &backends()[0];
    let layout = layout(KvDtype::F32);
    let mut arena = KvArena::new(backend, layout.page_bytes(), 1).unwrap();
    let keys =
        Tensor::from_vec((0..144).map(|x| x as f32).collect::<Vec<_>>(), (2, 3, 24), &Device::Cpu).unwrap();
    kv_write(backend, &mut arena, &layout, 0, &keys, &keys, &[3, 3]).unwrap();
    assert_eq!(arena.page(0).unwrap()[3 * 4..4 * 4], 72.0_f32.to_le_bytes());
}

#[test]
fn refusals_name_the_argument() {
    let backend = &backends()[0];
    let layout = layout(KvDtype::F32);
    let mut arena = KvArena::new(backend, layout.page_bytes(), 2).unwrap();
    let ones = |shape: (usize, usize, usize)| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
    let good = ones((2, 3, 24));
    let past = kv_write(backend, &mut arena, &layout, 0, &good, &good, &[0, 64]);
    assert!(matches!(
        past,
        Err(OpError::Index { argument: "slot_mapping", position: 1, index: 64, limit: 64 })
    ));
    let layer = kv_write(backend, &mut arena, &layout, 2, &good, &good, &[0, 1]);
    assert!(matches!(layer, Err(OpError::Value { argument: "layer_in_page", .. })));
    let short = kv_write(backend, &mut arena, &layout, 0, &good, &ones((2, 3, 16)), &[0, 1]);
    assert!(matches!(short, Err(OpError::Shape { argument: "values", .. })));
    let wide = KvPageLayout { layers_per_page: 3, ..layout };
    let large = kv_write(backend, &mut arena, &wide, 0, &good, &good, &[0, 1]);
    assert!(matches!(large, Err(OpError::Value { argument: "page_bytes", .. })));
    assert!(arena.page(0).unwrap().iter().all(|&byte| byte == 0));
}

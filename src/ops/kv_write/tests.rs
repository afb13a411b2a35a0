use super::*;
use crate::ops::{
    KvDtype,
    testing::{Random, backends},
};
use candle_core::{DType, Device};
use half::bf16;

fn layout(dtype: KvDtype) -> KvPageLayout {
    KvPageLayout { block_size: 32, layers_per_page: 2, kv_heads: 3, head_dim: 24, dtype }
}

/// Element `index` of a page.
fn element(arena: &KvArena, page: u32, dtype: KvDtype, index: usize) -> f32 {
    let bytes = arena.page(page).unwrap();
    match dtype {
        KvDtype::F32 => f32::from_le_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap()),
        KvDtype::Bf16 => bf16::from_le_bytes(bytes[2 * index..2 * index + 2].try_into().unwrap()).to_f32(),
    }
}

#[test]
fn elements_lie_where_the_layout_says_and_nothing_else_is_touched() {
    for dtype in [KvDtype::F32, KvDtype::Bf16] {
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
            let round = |x: f32| {
                if dtype == KvDtype::F32 { x } else { bf16::from_f32(x).to_f32() }
            };
            let mut written = 0;
            for (token, &slot) in slots.iter().enumerate() {
                let (page, place) = ((slot / 32) as u32, (slot % 32) as usize);
                for head in 0..3 {
                    let start = (3 + head) * 32 * (24 + 32);
                    for d in 0..24 {
                        let source = (token * 3 + head) * 24 + d;
                        let key = start + place / 16 * 16 * 24 + d * 16 + place % 16;
                        assert_eq!(element(&arena, page, dtype, key), round(keys[source]));
                        let value = start + 32 * 24 + place * 32 + d;
                        assert_eq!(element(&arena, page, dtype, value), round(values[source]));
                        written += 2;
                    }
                }
            }
            let elements = layout.page_bytes() / dtype.element_bytes();
            let nonzero = (0..40).flat_map(|page| (0..elements).map(move |index| (page, index)));
            let nonzero = nonzero.filter(|&(page, index)| element(&arena, page, dtype, index) != 0.0).count();
            assert!(nonzero <= written && nonzero > written - 20, "{nonzero} of {written}");
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
    assert_eq!(element(&arena, 0, KvDtype::F32, 3), 72.0);
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

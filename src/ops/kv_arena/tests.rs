use super::*;

fn backend() -> Backend {
    Backend::cpu(std::num::NonZeroUsize::new(1)).unwrap()
}

fn layout() -> KvPageLayout {
    KvPageLayout { block_size: 16, layers_per_page: 3, kv_heads: 2, head_dim: 64, dtype: KvDtype::F32 }
}

#[test]
fn page_bytes_count_keys_and_values_of_every_layer() {
    assert_eq!(layout().page_bytes(), 16 * 3 * 2 * 64 * 2 * 4);
    let bf16 = KvPageLayout { dtype: KvDtype::Bf16, ..layout() };
    assert_eq!(bf16.page_bytes() * 2, layout().page_bytes());
    // A scale of four bytes beside each token's head of keys and of values.
    let fp8 = KvPageLayout { dtype: KvDtype::Fp8, ..layout() };
    assert_eq!(fp8.page_bytes(), 16 * 3 * 2 * 2 * (64 + 4));
    // Value rows are padded to whole vectors of 16; keys are not.
    let odd = KvPageLayout { head_dim: 72, ..layout() };
    assert_eq!(odd.page_bytes(), 16 * 3 * 2 * (72 + 80) * 4);
}

#[test]
fn pages_are_whole_cache_lines_for_every_accepted_layout() {
    for block_size in [16, 32, 48, 256] {
        for head_dim in (8..=512).step_by(8) {
            for dtype in KvDtype::ALL {
                let layout = KvPageLayout { block_size, head_dim, dtype, ..layout() };
                layout.validate().unwrap();
                assert_eq!(layout.page_bytes() % 64, 0);
                assert_eq!(layout.head_offset(1, 1) % 64, 0);
                assert_eq!(layout.values_offset() % 64, 0);
                assert_eq!(layout.key_scales_offset() % 64, 0);
                assert_eq!(layout.value_scales_offset() % 64, 0);
                let scales = block_size * dtype.scale_bytes();
                assert_eq!(layout.head_bytes(), layout.value_scales_offset() + scales);
            }
        }
    }
}

#[test]
fn element_types_have_the_names_that_options_and_configs_take() {
    for dtype in KvDtype::ALL {
        assert_eq!(dtype.to_string().parse::<KvDtype>().unwrap(), dtype);
        assert_eq!(serde_json::to_string(&dtype).unwrap(), format!("\"{dtype}\""));
    }
    let error = "q8_0".parse::<KvDtype>().unwrap_err().to_string();
    assert!(error.contains("q8_0") && error.contains("f32, bf16, fp8"), "{error}");
}

#[test]
fn broken_layouts_are_refused_by_field() {
    let cases = [
        (KvPageLayout { block_size: 8, ..layout() }, "block_size"),
        (KvPageLayout { block_size: 0, ..layout() }, "block_size"),
        (KvPageLayout { head_dim: 20, ..layout() }, "head_dim"),
        (KvPageLayout { head_dim: 520, ..layout() }, "head_dim"),
        (KvPageLayout { kv_heads: 0, ..layout() }, "kv_heads"),
        (KvPageLayout { layers_per_page: 0, ..layout() }, "layers_per_page"),
    ];
    for (layout, expected) in cases {
        match layout.validate() {
            Err(OpError::Value { argument, .. }) => assert_eq!(argument, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn a_pool_past_four_gigabytes_is_addressed_without_being_touched() {
    // 1 MiB pages x 65,536 = 64 GiB of address space: elements pass 2^31 many times, memory is four pages.
    let mut arena = KvArena::new(&backend(), 1 << 20, 1 << 16).unwrap();
    assert_eq!((arena.num_pages(), arena.page_bytes()), (1 << 16, 1 << 20));
    for page in [0, 4_095, 4_096, 65_535] {
        assert!(arena.page(page).unwrap()[..4096].iter().all(|&byte| byte == 0));
        arena.page_mut(page).unwrap()[..4].copy_from_slice(&page.to_le_bytes());
    }
    for page in [0_u32, 4_095, 4_096, 65_535] {
        assert_eq!(arena.page(page).unwrap()[..4], page.to_le_bytes());
    }
}

#[test]
fn pages_start_on_cache_lines_whatever_their_size() {
    let arena = KvArena::new(&backend(), 100, 3).unwrap();
    for page in 0..3 {
        let bytes = arena.page(page).unwrap();
        assert_eq!(bytes.len(), 100);
        assert_eq!(bytes.as_ptr() as usize % 64, 0);
    }
}

#[test]
fn copies_run_in_order_and_refuse_pages_out_of_range() {
    let mut arena = KvArena::new(&backend(), 128, 4).unwrap();
    arena.page_mut(0).unwrap().fill(7);
    arena.copy_pages(&[(0, 2), (2, 3), (1, 0), (3, 3)]).unwrap();
    let first_bytes: Vec<u8> = (0..4).map(|page| arena.page(page).unwrap()[127]).collect();
    assert_eq!(first_bytes, [0, 0, 7, 7]);
    let refused = arena.copy_pages(&[(2, 1), (0, 4)]);
    assert!(matches!(refused, Err(OpError::Index { position: 1, index: 4, limit: 4, .. })));
    assert!(arena.page(1).unwrap().iter().all(|&byte| byte == 0), "nothing is copied when a pair is refused");
    assert!(matches!(arena.page(9), Err(OpError::Index { index: 9, .. })));
}

#[test]
fn impossible_reservations_are_typed_errors() {
    for (page_bytes, num_pages) in
        [(0, 1), (usize::MAX, 2), (1 << 40, 1 << 31), (usize::MAX - 3, 1), (64, 1 << 33), (1 << 45, 1 << 16)]
    {
        let refused = KvArena::new(&backend(), page_bytes, num_pages);
        assert!(matches!(refused, Err(OpError::Memory { .. })), "{page_bytes} x {num_pages}");
    }
    assert_eq!(KvArena::new(&backend(), 64, 0).unwrap().num_pages(), 0);
}

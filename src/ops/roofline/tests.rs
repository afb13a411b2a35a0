//! Costs by hand.

use super::{AttentionWork, Bound, Card, Cost, gated, rms_norm_with_residual};

/// Qwen3-8B: 32 query heads over 8, of 128 elements, bf16.
const QWEN3_8B: AttentionWork = AttentionWork {
    q_heads: 32,
    kv_heads: 8,
    head_dim: 128,
    window: None,
    activation_bytes: 2,
    cache_bytes: 2,
    scale_bytes: 0,
};

#[test]
fn decode_reads_the_context_once_for_all_branches() {
    let one = QWEN3_8B.decode(100_000, 1);
    // 4,096 bytes of keys and values a token; a query and an output of 32 x 128 bf16.
    assert_eq!(one.bytes, 100_000 * 4_096 + 2 * 8_192);
    assert_eq!(one.tensor_flops, 4 * 100_000 * 32 * 128);
    let eight = QWEN3_8B.decode(100_000, 8);
    assert_eq!(eight.bytes, (99_999 + 8) * 4_096 + 8 * 2 * 8_192);
    assert_eq!(eight.tensor_flops, 8 * one.tensor_flops);
    let (seconds, bound) = one.floor(Card::named("rtx-4090").unwrap());
    // 409.6 MB at 1,008 GB/s.
    assert_eq!(bound, Bound::Memory);
    assert!((seconds - 409.6e6 / 1008e9).abs() < 1e-7, "{seconds}");
}

#[test]
fn prefill_computes_half_the_square() {
    let n = 100_000;
    let whole = QWEN3_8B.prefill(n, 2_048);
    assert_eq!(whole.tensor_flops, 4 * 32 * 128 * (n as u64 * (n as u64 + 1) / 2));
    // Each chunk reads all before it and itself: 49 chunks, the last of 1,696.
    let keys: u64 = (1..=48).map(|chunk| chunk * 2_048).sum::<u64>() + 100_000;
    assert_eq!(whole.bytes, keys * 4_096 + 2 * n as u64 * 8_192);
    let (seconds, bound) = whole.floor(Card::named("rtx-4090").unwrap());
    assert_eq!(bound, Bound::Tensor);
    // 81.9 T operations at 165.2 T a second.
    assert!((seconds - 0.4960).abs() < 1e-3, "{seconds}");
    // One chunk or many: the same products.
    assert_eq!(QWEN3_8B.prefill(n, n).tensor_flops, whole.tensor_flops);
}

#[test]
fn windows_bound_keys_and_pairs() {
    let sliding = AttentionWork { window: Some(128), ..QWEN3_8B };
    assert_eq!(sliding.decode(100_000, 1).bytes, 128 * 4_096 + 2 * 8_192);
    // Queries 1,000 to 1,063 see keys 873 to 1,063.
    let chunk = sliding.prefill_chunk(1_000, 1_064);
    assert_eq!(chunk.bytes, 191 * 4_096 + 2 * 64 * 8_192);
    assert_eq!(chunk.tensor_flops, 4 * 64 * 128 * 32 * 128);
    // Before the window is full: 1 + 2 + ... + 128 pairs, then 128 each.
    let start = sliding.prefill(200, 200);
    assert_eq!(start.tensor_flops, 4 * (128 * 129 / 2 + 72 * 128) * 32 * 128);
    assert_eq!(sliding.prefill(0, 64), Cost::default());
    assert_eq!(sliding.decode(0, 1), Cost::default());
}

#[test]
fn fp8_halves_the_cache_and_adds_a_scale_a_head() {
    let fp8 = AttentionWork { cache_bytes: 1, scale_bytes: 4, ..QWEN3_8B };
    assert_eq!(fp8.decode(1_000, 1).bytes, 1_000 * 8 * 2 * (128 + 4) + 2 * 8_192);
    // Two tensors of 8 x 128 bf16 read, and as fp8 with scales written.
    assert_eq!(fp8.kv_write(10).bytes, 10 * (2 * 1_024 * 2 + 8 * 2 * 132));
    assert_eq!(QWEN3_8B.kv_write(10).bytes, 10 * (2 * 1_024 * 2 + 4_096));
}

#[test]
fn row_kernels_move_each_element_in_and_out() {
    assert_eq!(rms_norm_with_residual(3, 4_096, 2).bytes, 3 * 4_096 * 4 * 2);
    assert_eq!(gated(3, 12_288, 2).bytes, 3 * 12_288 * 3 * 2);
    assert_eq!(QWEN3_8B.rope(3, 128).bytes, 3 * 40 * 128 * 2 * 2);
}

/// Published peaks, in TFLOPS: dense bf16 with f32 sums.
#[test]
fn cards_have_their_published_peaks() {
    let published = [
        ("rtx-3090", 71.2),
        ("rtx-4090", 165.2),
        ("rtx-5090", 209.5),
        ("rtx-6000-ada", 364.2),
        ("rtx-pro-6000", 503.8),
        ("a100-80gb", 312.0),
        ("h200", 989.4),
    ];
    for (name, tflops) in published {
        let found = Card::named(name).unwrap().tensor_flops_per_second() / 1e12;
        assert!((found / tflops - 1.0).abs() < 2e-3, "{name}: {found}");
    }
    assert_eq!(published.len(), Card::ALL.len());
}

//! Keys and values in their blocks.
#![cfg(any(feature = "emu", feature = "cuda"))]
mod support;
use half::{bf16, f16};
use longwick_kernels::{Dtype, KernelError, KvLayout, KvPoolMut, KvWrite, Slots, Stream, View, ViewMut};
use std::sync::LazyLock;
use support::device::{Memory, Order, stream};
use support::pairs::{BLOCKS, DIMS, LENGTHS, all_pairs};
use support::{Float, Random, fp8_value, guarded, in_every_order, slots as on_device};

/// Writes, and gives back the pool's bytes.
fn write<T: Float>(
    stream: &mut Stream,
    keys: &[T],
    values: &[T],
    slots: &[u64],
    layout: &KvLayout,
) -> Vec<u8> {
    let (keys, values) = (guarded(keys), guarded(values));
    let mut pool = Memory::new(layout.pool_bytes());
    pool.elements_mut::<u8>().fill(0xff);
    let cache = KvPoolMut { pool: ViewMut::on_host(pool.elements_mut::<u8>()), layout };
    let (keys, values) = (View::on_host(keys.elements::<T>()), View::on_host(values.elements::<T>()));
    let copied = guarded(slots);
    KvWrite { keys, values, slots: on_device(slots, &copied), cache }.launch(stream).expect("kv_write");
    pool.elements::<u8>().to_vec()
}

/// The nearest E4M3 number, ties to the even code. Values ascend with the codes of one sign.
fn fp8_nearest(x: f64) -> f64 {
    static VALUES: LazyLock<Vec<f64>> = LazyLock::new(|| (0..0x7f).map(fp8_value).collect());
    let above = VALUES.partition_point(|&value| value < x.abs()).min(0x7e);
    let below = above.saturating_sub(1);
    let distance = |code: usize| (VALUES[code] - x.abs()).abs();
    let order = distance(above).total_cmp(&distance(below)).then((above & 1).cmp(&(below & 1)));
    VALUES[if order.is_lt() { above } else { below }].copysign(x)
}

fn check<T: Float>(cached: Dtype, tokens: usize, block_size: usize, kv_heads: usize, head_dim: usize) {
    let blocks = tokens.div_ceil(block_size) + 3;
    let layout = KvLayout::packed(cached, blocks, block_size, kv_heads, head_dim);
    let mut random = Random(head_dim as u64);
    let mut slots: Vec<u64> = (0..(blocks * block_size) as u64).collect();
    for i in (1..slots.len()).rev() {
        slots.swap(i, random.below(i + 1));
    }
    slots.truncate(tokens);
    let mut sides = [(); 2].map(|()| random.elements::<T>(tokens * kv_heads * head_dim, 5.0));
    // A head of zeros has no magnitude to scale by.
    sides[0][..head_dim].fill(T::of(0.0));
    let bytes = in_every_order_bytes(|stream| write(stream, &sides[0], &sides[1], &slots, &layout));
    let mut touched = 0;
    for (side, base) in [(0, layout.keys), (1, layout.values)] {
        for token in 0..tokens {
            let (block, place) = (slots[token] as usize / block_size, slots[token] as usize % block_size);
            for head in 0..kv_heads {
                let start = base + block * layout.block_stride + head * layout.head_stride;
                let stored = &bytes[start + place * head_dim * cached.bytes()..][..head_dim * cached.bytes()];
                let source = &sides[side][(token * kv_heads + head) * head_dim..][..head_dim];
                let scale = layout.scales.as_ref().map(|scales| {
                    let start = [scales.keys, scales.values][side] + block * layout.block_stride;
                    let at = start + head * scales.head_stride + place * 4;
                    f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
                });
                check_head(cached, stored, source, scale);
                touched += head_dim * cached.bytes() + 4 * usize::from(scale.is_some());
            }
        }
    }
    // Every other byte is as it was; a written byte may itself be 0xff.
    assert!(bytes.iter().filter(|&&byte| byte != 0xff).count() <= touched);
}

fn in_every_order_bytes(run: impl Fn(&mut Stream) -> Vec<u8>) -> Vec<u8> {
    let widened = in_every_order(|stream| run(stream).into_iter().map(f32::from).collect::<Vec<f32>>());
    widened.into_iter().map(|byte| byte as u8).collect()
}

fn check_head<T: Float>(cached: Dtype, stored: &[u8], source: &[T], scale: Option<f32>) {
    if let Some(scale) = scale {
        let greatest = source.iter().map(|x| x.f32().abs()).fold(0.0, f32::max);
        assert_eq!(scale, if greatest > 0.0 { greatest / 448.0 } else { 1.0 });
        for (&code, x) in stored.iter().zip(source) {
            assert_eq!(fp8_value(code), fp8_nearest(f64::from(x.f32() / scale)), "{x:?} by {scale}");
        }
        return;
    }
    for (bytes, x) in stored.chunks(cached.bytes()).zip(source) {
        let expected = match cached {
            Dtype::F32 => x.f32().to_le_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f32(x.f32()).to_le_bytes().to_vec(),
            _ => f16::from_f32(x.f32()).to_le_bytes().to_vec(),
        };
        assert_eq!(bytes, expected, "{x:?}");
    }
}

#[test]
fn each_type_is_written_to_each_cache() {
    const CACHES: [Dtype; 4] = [Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::Fp8E4m3];
    const HEADS: [usize; 2] = [1, 3];
    let checks = [check::<f32>, check::<bf16>, check::<f16>];
    let sizes = [checks.len(), CACHES.len(), LENGTHS.len(), BLOCKS.len(), HEADS.len(), DIMS.len()];
    for choice in all_pairs(&sizes, 1) {
        let (check, cached) = (checks[choice[0]], CACHES[choice[1]]);
        check(cached, LENGTHS[choice[2]], BLOCKS[choice[3]], HEADS[choice[4]], DIMS[choice[5]]);
    }
}

#[test]
fn a_head_too_small_for_an_fp8_scale_is_stored_as_zeros() {
    let layout = KvLayout::packed(Dtype::Fp8E4m3, 1, 16, 1, 16);
    let mut head = [0f32; 16];
    head[3] = 1e-44;
    let bytes = write(&mut stream(Order::Forward), &head, &head, &[0], &layout);
    let scales = layout.scales.expect("fp8");
    for (codes, scale) in [(layout.keys, scales.keys), (layout.values, scales.values)] {
        assert_eq!(bytes[codes..codes + 16], [0; 16]);
        assert_eq!(bytes[scale..scale + 4], 1f32.to_le_bytes());
    }
}

#[test]
fn a_slot_past_the_pool_is_refused() {
    let layout = KvLayout::packed(Dtype::F32, 2, 16, 1, 16);
    let (rows, mut pool) = (vec![0f32; 16], vec![0u8; layout.pool_bytes() + 16]);
    // A pool of bytes must begin on 16.
    let shift = pool.as_ptr().align_offset(16);
    let pool = ViewMut::on_host(&mut pool[shift..]);
    let write = KvWrite {
        keys: View::on_host(&rows),
        values: View::on_host(&rows),
        slots: Slots::on_host(&[32]),
        cache: KvPoolMut { pool, layout: &layout },
    };
    let error = write.launch(&mut stream(Order::Forward)).expect_err("slot 32 of 32");
    assert_eq!(
        error,
        KernelError::Value { argument: "slots", expected: "below 32".into(), found: "32".into() }
    );
}

#[test]
fn offsets_pass_two_to_the_31() {
    // 140,000 blocks of 16 tokens, one head of 512: over 2^31 elements of keys and values. Untouched pages cost nothing.
    let layout = KvLayout::packed(Dtype::Bf16, 140_000, 16, 1, 512);
    assert!(layout.pool_bytes() / 2 > 1 << 31);
    let mut pool = Memory::new(layout.pool_bytes());
    let slot = 139_999 * 16 + 15;
    let rows = guarded(&Random(1).elements::<bf16>(512, 1.0));
    KvWrite {
        keys: View::on_host(rows.elements::<bf16>()),
        values: View::on_host(rows.elements::<bf16>()),
        slots: on_device(&[slot], &guarded(&[slot])),
        cache: KvPoolMut { pool: ViewMut::on_host(pool.elements_mut::<u8>()), layout: &layout },
    }
    .launch(&mut stream(Order::Forward))
    .expect("kv_write");
    let stored = pool.elements::<bf16>();
    assert_eq!(&stored[stored.len() - 512..], rows.elements::<bf16>());
    assert!(stored[stored.len() - 1024..stored.len() - 512].iter().all(|x| x.to_bits() == 0));
}

#[test]
fn layouts_that_overrun_are_refused() {
    let sound = KvLayout::packed(Dtype::Fp8E4m3, 3, 16, 2, 32);
    let bytes = sound.pool_bytes();
    sound.validate(bytes).expect("sound");
    type Change = fn(&mut KvLayout);
    let broken: [(&str, Change); 8] = [
        ("num_blocks", |layout| layout.num_blocks += 1),
        ("block_stride", |layout| layout.values += 16 * 1024),
        ("block_stride", |layout| layout.head_stride = usize::MAX / 16 * 16),
        ("block_stride", |layout| layout.head_stride = 16),
        ("block_size", |layout| layout.block_size = 24),
        ("head_dim", |layout| layout.head_dim = 20),
        ("scales", |layout| layout.scales = None),
        ("layout", |layout| layout.keys = 4),
    ];
    for (part, change) in broken {
        let mut layout = sound.clone();
        change(&mut layout);
        let error = layout.validate(bytes).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
    }
}

//! A session file, changed in places and given the checksum of what it then holds: whatever its header says, it is read or
//! refused, and the cache keeps its books.
#![no_main]
use std::sync::OnceLock;

use longwick::kv::disk::KvIdentity;
use longwick::kv::{KvCache, KvPlan, LayerKv};
use longwick::ops::{Backend, KvDtype, RecurrentShape};
use sha2::{Digest, Sha256};

const BLOCKS: usize = 64;

fn cache() -> (KvCache, KvIdentity) {
    let shape = RecurrentShape {
        key_heads: 1,
        value_heads: 1,
        key_dim: 8,
        value_dim: 8,
        conv_kernel: 2,
        value_heads_in_turn: false,
    };
    let full = LayerKv::Full { kv_heads: 1, head_dim: 8 };
    let sliding = LayerKv::Sliding { window: 40, kv_heads: 1, head_dim: 8 };
    let plan = KvPlan::new(&[full, sliding, LayerKv::Recurrent(shape)], 16, KvDtype::Bf16).expect("a plan");
    let identity = KvIdentity::new("weights".into(), "rope".into(), "cpu".into(), &plan);
    let backend = Backend::cpu(std::num::NonZeroUsize::new(1)).expect("a backend");
    let cache = KvCache::new(&backend, plan, BLOCKS, true).and_then(|cache| cache.with_slots(8, 64));
    (cache.expect("a cache"), identity)
}

/// A file of 150 tokens.
fn whole() -> &'static Vec<u8> {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let (mut cache, identity) = cache();
        let tokens: Vec<u32> = (0..150).collect();
        let mut sequence = cache.attach(&[]);
        for end in [64, 128, 150] {
            cache.prepare_append(&mut sequence, end).expect("room");
            cache.plan_snapshots(&mut sequence, end, [end].into_iter());
            cache.commit(&mut sequence, &tokens, end);
        }
        longwick_fuzz::with_file("session.kv", &[], |path| {
            cache.save_sequence(&sequence, &tokens, &identity, path).expect("it is written");
            std::fs::read(path).expect("it is there")
        })
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut bytes = whole().clone();
    bytes.truncate(bytes.len() - 32);
    // Each change: a place, most of them in the header, and what becomes of the byte there.
    for change in data.chunks_exact(4) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let place = if change[3] & 1 == 0 { place % 2_048 } else { place * 7 } % bytes.len();
        match change[3] >> 1 & 3 {
            0 => bytes[place] = change[2],
            1 => bytes.insert(place, change[2]),
            2 => drop(bytes.remove(place)),
            _ => bytes[place] ^= change[2],
        }
    }
    bytes.extend_from_slice(&Sha256::digest(&bytes));
    let (mut cache, identity) = cache();
    let outcome = longwick_fuzz::with_file("session.kv", &bytes, |path| cache.load_sequence(path, &identity));
    if let Ok((tokens, sequence)) = outcome {
        assert_eq!(tokens.len(), sequence.num_tokens());
        cache.free(sequence);
    }
    assert_eq!((cache.usage().referenced, cache.slot_usage().referenced), (0, 0));
});

//! Published quantised models on the device beside the CPU, over the beginning of this repository's README.

use longwick::engine::{EngineOptions, PositionLogprobs};
use longwick::ops::{DeviceChoice, KvDtype};
use longwick::weights::fetch::resolve_model;

use crate::likeness::{Likeness, next_tokens};
use crate::{accelerator, assets, options};

/// What a device's products of quantised weights may change.
struct Allowance {
    tokens: usize,
    /// Nats a token.
    divergence: f64,
    /// Share of positions with another most likely token.
    changed: f64,
}

/// The emulator has the CPU's products. CUDA's round the activations to 8 bits where the CPU keeps 16; with one bit less than CUDA
/// has, the CPU comes to another most likely token 6 times in 100.
fn allowance(device: DeviceChoice) -> Allowance {
    match device {
        DeviceChoice::Cuda { .. } => Allowance { tokens: 2_000, divergence: 0.02, changed: 0.10 },
        // Past one span of keys.
        _ => Allowance { tokens: 320, divergence: 0.001, changed: 0.01 },
    }
}

/// From the CPU with f32 keys and values the device may be twice as far as the CPU with the type in question is, and its allowance.
fn check(name: &str) {
    let model = resolve_model(name).unwrap_or_else(|error| panic!("{error}"));
    let text = std::fs::read_to_string(assets::repository().join("README.md")).unwrap();
    let allowed = allowance(accelerator());
    let of = |device, kv_dtype, chunk, tokens| {
        let options = EngineOptions {
            kv_pool_bytes: Some(128 << 20),
            threads: None,
            ..options(device, kv_dtype, chunk)
        };
        let tokens = next_tokens(&model, &text, tokens, options);
        tokens.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let exact = of(DeviceChoice::Cpu, KvDtype::F32, 512, allowed.tokens);
    let compare = |kv_dtype, chunk, cpu: &Likeness, found: &[PositionLogprobs]| {
        let found = Likeness::new(&exact[..found.len()], found);
        let what = format!("{name} {kv_dtype} by {chunk}: {found}; on the CPU: {cpu}");
        println!("{what}");
        assert!(found.divergence <= 2.0 * cpu.divergence + allowed.divergence, "{what}");
        assert!(1.0 - found.same <= 2.0 * (1.0 - cpu.same) + allowed.changed, "{what}");
    };
    for kv_dtype in KvDtype::ALL {
        let cpu = match kv_dtype {
            KvDtype::F32 => Likeness::new(&exact, &exact),
            _ => Likeness::new(&exact, &of(DeviceChoice::Cpu, kv_dtype, 512, allowed.tokens)),
        };
        compare(kv_dtype, 512, &cpu, &of(accelerator(), kv_dtype, 512, allowed.tokens));
    }
    // Of so few rows CUDA computes the products by other kernels.
    let few = of(accelerator(), KvDtype::F32, 8, 64);
    compare(KvDtype::F32, 8, &Likeness::new(&exact, &exact), &few);
}

#[test]
#[ignore = "minutes on the emulator: scripts/device_check.sh runs it"]
fn gemma3_270m() {
    check("gemma3-270m");
}

#[test]
#[ignore = "minutes on the emulator: scripts/device_check.sh runs it"]
fn smollm2_135m() {
    check("smollm2-135m");
}

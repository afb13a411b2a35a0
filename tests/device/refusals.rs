//! What the kernels do not have yet is refused while loading, by name.

use longwick::engine::{Engine, EngineOptions};
use longwick::ops::{DeviceChoice, KvDtype};

use crate::{assets, options};

fn refusal(model: &str, options: EngineOptions) -> String {
    let loaded = Engine::load(&assets::own_fixture(model), options, &mut |_, _| {});
    loaded.err().unwrap_or_else(|| panic!("{model} was loaded")).to_string()
}

#[test]
fn families_without_kernels() {
    for (model, what) in [
        ("qwen3_moe", "a mixture of experts does not run on emu yet; it does on the CPU"),
        ("gpt_oss", "a mixture of experts does not run on emu yet; it does on the CPU"),
        ("qwen3_5", "a layer of Gated DeltaNet does not run on emu yet; it does on the CPU"),
    ] {
        assert_eq!(refusal(model, options(DeviceChoice::Emu, KvDtype::F32, 64)), what, "{model}");
    }
}

#[test]
fn block_sizes_that_are_no_power_of_two() {
    let options = EngineOptions { block_size: 48, ..options(DeviceChoice::Emu, KvDtype::F32, 64) };
    let error = refusal("qwen3", options);
    assert_eq!(error, "block_size: expected a power of two, at least 16, found 48");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_device_that_the_build_lacks() {
    let error = refusal("qwen3", options(DeviceChoice::Cuda { ordinal: 0 }, KvDtype::F32, 64));
    assert!(error.starts_with("this build of longwick has no cuda device; scripts/build_cuda.sh"), "{error}");
}

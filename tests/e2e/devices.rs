//! What the command says of the devices that a build has.

use std::process::{Command, Output};

fn longwick(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longwick")).args(arguments).output().unwrap()
}

#[cfg(not(feature = "cuda"))]
#[test]
fn the_doctor_says_what_a_build_without_cuda_has() {
    let output = longwick(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let machine = &report["machine"];
    assert_eq!(machine["cpu"]["instruction_sets"].as_array().unwrap().last().unwrap(), "portable");
    assert_eq!(machine["emulator"], cfg!(feature = "emu"));
    assert_eq!(machine["cuda"]["is_built"], false);
    let text = String::from_utf8(longwick(&["doctor"]).stdout).unwrap();
    assert!(text.contains("scripts/build_cuda.sh builds one that has it"), "{text}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_device_that_the_build_lacks_is_refused_with_the_way_to_it() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny/qwen3");
    let ids = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ids.path(), "[5, 6]").unwrap();
    let path = ids.path().to_str().unwrap();
    let output = longwick(&["logits", "-m", model, "--tokens", path, "--device", "cuda"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--device: this build of longwick has no cuda device"), "{said}");
    assert!(said.contains("scripts/build_cuda.sh"), "{said}");
}

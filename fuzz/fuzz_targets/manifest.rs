//! TOML: model manifests and protocols.
#![no_main]
use longwick::{compint::Protocol, weights::manifest::ModelManifest};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _typed = (
        ModelManifest::parse(text, "fuzz.toml".as_ref()).is_ok(),
        Protocol::from_toml(text, "fuzz.toml").is_ok(),
    );
});

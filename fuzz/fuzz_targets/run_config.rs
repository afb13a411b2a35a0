//! TOML: the configuration of a run.
#![no_main]
use longwick::compint::config::RunConfig;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _typed = RunConfig::parse(text, "fuzz.toml".as_ref()).is_ok();
});

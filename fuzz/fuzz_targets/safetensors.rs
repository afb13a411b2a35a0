//! The header of a safetensors file.
#![no_main]
use longwick::weights::safetensors::parse_header;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _typed = parse_header(data, std::path::Path::new("fuzz.safetensors"));
});

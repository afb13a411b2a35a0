//! A history in any JSON or JSONL format, told apart by content.
#![no_main]
use longwick::history::import_path;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    longwick_fuzz::with_file("history.jsonl", data, |path| import_path(path, None).is_ok());
});

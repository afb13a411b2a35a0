//! A Parquet table of haystacks or instances. Panics inside the parquet crate are caught by the reader and become its
//! errors; libfuzzer's own hook would end the process before that, so it is taken out. One that gets past the reader
//! still ends it.
#![no_main]
use longwick::history::import_path;

libfuzzer_sys::fuzz_target!(init: { drop(std::panic::take_hook()) }, |data: &[u8]| {
    longwick_fuzz::with_file("history.parquet", data, |path| import_path(path, None).is_ok());
});

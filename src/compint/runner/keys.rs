//! Keys of results: digests of all that a result depends on.

use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// What every result depends on, beside its own inputs.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct KeyBase<'a> {
    /// Digest of weights, tokenizer and template.
    pub model: &'a str,
    /// Backend, KV element type, longwick's version.
    pub arithmetic: &'a str,
    /// The date templates see.
    pub date: &'a str,
}

/// Changes where the meaning of stored payloads changes, so that old ones are not taken for new ones.
const FORMAT: u32 = 1;

struct Hasher(Sha256);

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sha256 over the JSON of kind, base and inputs, hex.
///
/// # Errors
/// What serde_json says of inputs that JSON cannot hold.
pub fn result_key(
    kind: &str,
    base: &KeyBase<'_>,
    inputs: &impl Serialize,
) -> Result<String, serde_json::Error> {
    // Hashed as it is written: histories are megabytes.
    let mut hasher = Hasher(Sha256::new());
    serde_json::to_writer(&mut hasher, &(FORMAT, kind, base, inputs))?;
    Ok(crate::weights::hex(&hasher.0.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts() {
        let base = KeyBase { model: "m", arithmetic: "a", date: "d" };
        let key = |kind, base: &KeyBase<'_>, inputs: &[&str]| result_key(kind, base, &inputs).unwrap();
        let first = key("judge", &base, &["x"]);
        assert_eq!(first, key("judge", &base, &["x"]));
        assert_eq!(first.len(), 64);
        for other in [
            key("probe", &base, &["x"]),
            key("judge", &base, &["y"]),
            key("judge", &KeyBase { model: "n", ..base }, &["x"]),
            key("judge", &KeyBase { arithmetic: "b", ..base }, &["x"]),
            key("judge", &KeyBase { date: "e", ..base }, &["x"]),
        ] {
            assert_ne!(first, other);
        }
    }
}

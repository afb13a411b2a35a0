//! Sizes and counts as the command line takes and prints them.
use std::num::NonZeroUsize;

/// A number of bytes: `512MiB`, `2GB`, or plain as `1073741824`.
///
/// # Errors
/// What is wrong with it. A plain number below 1 MiB but 0 most likely lacks its unit.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    const LEAST_PLAIN: f64 = 1024.0 * 1024.0;
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let factor: f64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "kib" => 1024.0,
        "m" | "mb" => 1e6,
        "mib" => 1024.0 * 1024.0,
        "g" | "gb" => 1e9,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tb" => 1e12,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        other => return Err(format!("{other:?} is no unit (B, KB, KiB, MB, MiB, GB, GiB, TB, TiB)")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is no number"))?;
    if unit.is_empty() && number > 0.0 && number < LEAST_PLAIN {
        return Err(format!("{text} has no unit: write {text}GiB, {text}MiB, or {text}B for bytes"));
    }
    let bytes = number * factor;
    if bytes.is_finite() && bytes < 1e18 { Ok(bytes as u64) } else { Err(format!("{text} is too large")) }
}

/// A number of tokens: `100000`, or `100k` for thousands.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse_tokens(text: &str) -> Result<NonZeroUsize, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => (text, 1),
    };
    let number: usize = digits.parse().map_err(|_| format!("{text:?} is no number of tokens"))?;
    let tokens = number.checked_mul(factor).and_then(NonZeroUsize::new);
    tokens.ok_or_else(|| format!("{text} tokens cannot be planned"))
}

/// `25769803776` as `24.00 GiB`.
pub(super) fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// `1234567` as `1,234,567`.
pub(super) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes() {
        let cases = [
            ("0", 0),
            ("24b", 24),
            ("24 B", 24),
            ("1048576", 1 << 20),
            ("2GB", 2_000_000_000),
            ("0.5GiB", 1 << 29),
            ("512mib", 1 << 29),
            ("3k", 3_000),
            ("1TiB", 1 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1GiB", "1.2.3GiB", "5PB", "99999999999GiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        // Somebody's gigabytes.
        for text in ["24", "1.5", "1048575"] {
            let error = parse_bytes(text).expect_err(text);
            assert!(error.contains(&format!("{text}GiB")), "{error}");
        }
    }

    #[test]
    fn tokens() {
        for (text, tokens) in [("1", 1), ("100000", 100_000), ("100k", 100_000), ("32K", 32_000)] {
            assert_eq!(parse_tokens(text).map(NonZeroUsize::get), Ok(tokens), "{text}");
        }
        for text in ["", "0", "0k", "k", "-5", "1.5k", "99999999999999999999", "9999999999999999999k"] {
            assert!(parse_tokens(text).is_err(), "{text}");
        }
    }

    #[test]
    fn printed_numbers() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        assert!(cases.iter().all(|(number, text)| thousands(*number) == *text));
        assert_eq!(gib(3 << 29), "1.50 GiB");
    }
}

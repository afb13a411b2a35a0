//! JSON and numbers as Python writes them, so that files compare byte for byte with the published tool's.

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};
use std::io::{self, Write};

/// `json.dumps(value)`: separators `", "` and `": "`, and every character outside printable ASCII escaped.
///
/// # Errors
/// What serde_json says of a value that JSON cannot hold, such as a map whose keys are not strings.
pub fn dumps<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, PythonFormatter))?;
    String::from_utf8(bytes).map_err(|error| serde::ser::Error::custom(error.to_string()))
}

/// `repr(value)` of a float, which is also what Python's `csv` and `json` write: the shortest digits that read back as
/// the same double, positional while the decimal exponent is in -4..16.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let positional = format!("{value}");
        if positional.contains('.') { positional } else { positional + ".0" }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }
}

struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float_repr(value).as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::Quote => writer.write_all(b"\\\""),
            CharEscape::ReverseSolidus => writer.write_all(b"\\\\"),
            CharEscape::Solidus => writer.write_all(b"/"),
            CharEscape::Backspace => writer.write_all(b"\\b"),
            CharEscape::FormFeed => writer.write_all(b"\\f"),
            CharEscape::LineFeed => writer.write_all(b"\\n"),
            CharEscape::CarriageReturn => writer.write_all(b"\\r"),
            CharEscape::Tab => writer.write_all(b"\\t"),
            CharEscape::AsciiControl(byte) => write!(writer, "\\u{byte:04x}"),
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut plain_from = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| !(' '..='~').contains(c)) {
            writer.write_all(&fragment.as_bytes()[plain_from..at])?;
            // Python escapes by UTF-16 unit, so a character beyond the basic plane is a pair of surrogates.
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            plain_from = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[plain_from..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // python3.11: json.dumps({"a": [1, "é\u007f\u0001\n\"\\/😀"], "b": {}, "c": [], "d": None, "e": 1e16})
    #[test]
    fn dumps_equals_python() {
        let value = json!({"a": [1, "é\u{7f}\u{1}\n\"\\/😀"], "b": {}, "c": [], "d": null, "e": 1e16});
        let expected =
            r#"{"a": [1, "\u00e9\u007f\u0001\n\"\\/\ud83d\ude00"], "b": {}, "c": [], "d": null, "e": 1e+16}"#;
        assert_eq!(expected, dumps(&value).unwrap());
    }

    // python3.11: repr of each value.
    #[test]
    fn float_repr_equals_python() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (100.0, "100.0"),
            (66.66666666666667, "66.66666666666667"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (9007199254740993.0, "9007199254740992.0"),
            (-1.25e100, "-1.25e+100"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(expected, float_repr(value));
        }
    }
}

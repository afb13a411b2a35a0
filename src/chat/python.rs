//! How Python writes values: templates were written for it, and their output is part of a model's training.
use std::fmt::Write;

use serde_json::Value;

/// `json.dumps(value, ensure_ascii=..., indent=..., separators=..., sort_keys=...)`.
pub(super) struct JsonStyle {
    pub ensure_ascii: bool,
    pub indent: Option<usize>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

/// Writes JSON as Python's `json.dumps` does.
pub(super) fn json_dumps(value: &Value, style: &JsonStyle) -> String {
    let mut out = String::new();
    write_json(&mut out, value, style, 0);
    out
}

fn write_json(out: &mut String, value: &Value, style: &JsonStyle, depth: usize) {
    match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| (None, item)).collect();
            write_items(out, ['[', ']'], items, style, depth);
        }
        Value::Object(fields) => {
            let mut items: Vec<_> = fields.iter().map(|(key, item)| (Some(key.as_str()), item)).collect();
            if style.sort_keys {
                items.sort_by_key(|(key, _)| *key);
            }
            write_items(out, ['{', '}'], items, style, depth);
        }
        Value::String(text) => write_json_string(out, text, style.ensure_ascii),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
    }
}

fn write_items(
    out: &mut String,
    [open, close]: [char; 2],
    items: Vec<(Option<&str>, &Value)>,
    style: &JsonStyle,
    depth: usize,
) {
    let newline = |out: &mut String, depth: usize| {
        if let Some(indent) = style.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    out.push(open);
    let is_empty = items.is_empty();
    for (index, (key, item)) in items.into_iter().enumerate() {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        newline(out, depth + 1);
        if let Some(key) = key {
            write_json_string(out, key, style.ensure_ascii);
            out.push_str(&style.key_separator);
        }
        write_json(out, item, style, depth + 1);
    }
    if !is_empty {
        newline(out, depth);
    }
    out.push(close);
}

/// Writes a JSON string, quotes included, with Python's escapes.
pub(super) fn write_json_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            _ if character < ' ' || (ensure_ascii && !character.is_ascii()) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// `str(value)`.
pub(super) fn to_str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        _ => repr(value),
    }
}

fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number_text(number),
        Value::String(text) => string_repr(text),
        Value::Array(items) => format!("[{}]", items.iter().map(repr).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, item)| format!("{}: {}", string_repr(key), repr(item)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn string_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => out.extend(['\\', quote]),
            _ if character.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
    out
}

fn number_text(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_repr(float),
        _ => number.to_string(),
    }
}

/// `repr(float)`: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
fn float_repr(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || float == 0.0 {
        return format!("{float:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// What `str.strip()` strips: Unicode's white space, and the four separators U+001C to U+001F.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

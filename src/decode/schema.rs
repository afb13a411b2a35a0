//! A JSON schema whose every output is finite, or a refusal that names the place.
//!
//! Under greedy decoding a small model fills an unbounded string for ever, and the cut-off output is then not JSON.
//! So each string, array, number and object must have an end before the schema is compiled.

use super::DecodeError;
use serde_json::{Map, Value};

/// The longest string and the longest array a schema may ask for: above, the automaton itself gets too large.
const LARGEST_BOUND: u64 = 65_536;

/// How deep schemas may nest, references included.
const DEEPEST: usize = 64;

/// Formats whose texts are of limited length.
const BOUNDED_FORMATS: [&str; 4] = ["date", "ipv4", "ipv6", "uuid"];

/// Checks that `schema` bounds its output.
///
/// # Errors
/// [`DecodeError::UnboundedSchema`] or [`DecodeError::SchemaReference`], with the JSON pointer of the place.
pub(crate) fn check_bounded(schema: &Value) -> Result<(), DecodeError> {
    Checker { root: schema, open: Vec::new() }.check(schema, "#", 0)
}

struct Checker<'a> {
    root: &'a Value,
    /// References being followed: meeting one again means the schema is recursive.
    open: Vec<String>,
}

fn unbounded(path: &str, rule: &'static str) -> DecodeError {
    DecodeError::UnboundedSchema { path: path.to_owned(), rule }
}

impl<'a> Checker<'a> {
    fn check(&mut self, schema: &'a Value, path: &str, depth: usize) -> Result<(), DecodeError> {
        if depth > DEEPEST {
            return Err(unbounded(path, "schemas nest more than 64 deep"));
        }
        let object = match schema {
            Value::Bool(false) => return Ok(()),
            Value::Object(object) => object,
            _ => return Err(unbounded(path, "any value is allowed; give a type")),
        };
        if object.contains_key("const") || object.contains_key("enum") {
            return Ok(());
        }
        if let Some(reference) = object.get("$ref") {
            return self.check_reference(reference, path, depth);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(options) = object.get(key).and_then(Value::as_array) {
                for (index, option) in options.iter().enumerate() {
                    self.check(option, &format!("{path}/{key}/{index}"), depth + 1)?;
                }
                return Ok(());
            }
        }
        if let Some(parts) = object.get("allOf").and_then(Value::as_array) {
            return self.check_all_of(parts, path, depth);
        }
        self.check_types(object, path, depth)
    }

    /// An intersection is bounded where one of its parts is.
    fn check_all_of(&mut self, parts: &'a [Value], path: &str, depth: usize) -> Result<(), DecodeError> {
        let mut first_error = None;
        for (index, part) in parts.iter().enumerate() {
            match self.check(part, &format!("{path}/allOf/{index}"), depth + 1) {
                Ok(()) => return Ok(()),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| unbounded(path, "allOf is empty")))
    }

    fn check_reference(&mut self, reference: &Value, path: &str, depth: usize) -> Result<(), DecodeError> {
        let text = reference.as_str().unwrap_or_default();
        let fail = |reason| DecodeError::SchemaReference {
            path: path.to_owned(),
            reference: reference.to_string(),
            reason,
        };
        let pointer =
            text.strip_prefix('#').ok_or_else(|| fail("only references inside the schema are followed"))?;
        let target = self.root.pointer(pointer).ok_or_else(|| fail("there is nothing at this place"))?;
        if self.open.iter().any(|open| open == text) {
            return Err(fail("the schema is recursive, so its output has no longest length"));
        }
        self.open.push(text.to_owned());
        let result = self.check(target, text, depth + 1);
        self.open.pop();
        result
    }

    fn check_types(
        &mut self,
        object: &'a Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<(), DecodeError> {
        let types: Vec<&str> = match object.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => return Err(unbounded(path, "any value is allowed; give a type")),
        };
        for name in types {
            match name {
                "string" => check_string(object, path)?,
                "array" => self.check_array(object, path, depth)?,
                "object" => self.check_object(object, path, depth)?,
                "integer" => check_integer(object, path)?,
                "number" => {
                    return Err(unbounded(
                        path,
                        "a number may have any count of digits; use an integer with minimum and maximum",
                    ));
                }
                // null and boolean are finite; a name that is no type is the compiler's to refuse.
                _ => {}
            }
        }
        Ok(())
    }

    fn check_array(
        &mut self,
        object: &'a Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if let Some(prefix) = object.get("prefixItems").and_then(Value::as_array) {
            for (index, item) in prefix.iter().enumerate() {
                self.check(item, &format!("{path}/prefixItems/{index}"), depth + 1)?;
            }
        }
        let items = object.get("items");
        if items == Some(&Value::Bool(false)) {
            return Ok(());
        }
        let rule = "an array needs maxItems, at most 65536";
        check_limit(object, "maxItems", path, rule)?;
        match items {
            Some(items) => self.check(items, &format!("{path}/items"), depth + 1),
            None => Err(unbounded(path, "an array needs items: without, its elements may be any value")),
        }
    }

    fn check_object(
        &mut self,
        object: &'a Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if object.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err(unbounded(path, "an object needs \"additionalProperties\": false"));
        }
        if object.contains_key("patternProperties") {
            return Err(unbounded(path, "patternProperties allow any number of properties"));
        }
        if let Some(properties) = object.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                let name = name.replace('~', "~0").replace('/', "~1");
                self.check(property, &format!("{path}/properties/{name}"), depth + 1)?;
            }
        }
        Ok(())
    }
}

fn check_limit(
    object: &Map<String, Value>,
    key: &str,
    path: &str,
    rule: &'static str,
) -> Result<(), DecodeError> {
    match object.get(key).and_then(Value::as_u64) {
        Some(limit) if limit <= LARGEST_BOUND => Ok(()),
        _ => Err(unbounded(path, rule)),
    }
}

fn check_string(object: &Map<String, Value>, path: &str) -> Result<(), DecodeError> {
    let format = object.get("format").and_then(Value::as_str);
    if format.is_some_and(|name| BOUNDED_FORMATS.contains(&name)) {
        return Ok(());
    }
    check_limit(object, "maxLength", path, "a string needs maxLength, at most 65536")
}

fn check_integer(object: &Map<String, Value>, path: &str) -> Result<(), DecodeError> {
    let has_either =
        |names: [&str; 2]| names.iter().any(|name| object.get(*name).is_some_and(Value::is_number));
    if has_either(["minimum", "exclusiveMinimum"]) && has_either(["maximum", "exclusiveMaximum"]) {
        Ok(())
    } else {
        Err(unbounded(path, "an integer needs minimum and maximum: without, it may have any count of digits"))
    }
}

//! JSON parsing with limits: depth, number of values, no key twice in an object.
//!
//! serde_json keeps the last of two equal keys and bounds depth alone; a history whose `content`
//! stands twice would silently lose one of them, and `[0,0,...]` grows some thirtyfold in memory.
use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Levels of arrays and objects, below serde_json's own limit of 128.
pub(super) const MAX_DEPTH: usize = 100;
/// Values in one record.
pub(super) const MAX_VALUES: usize = 4_000_000;

/// What a parse found wrong, and where.
#[derive(Debug)]
pub(super) struct Fault {
    pub line: usize,
    pub column: usize,
    pub kind: FaultKind,
}

#[derive(Debug)]
pub(super) enum FaultKind {
    /// The text ends inside a value.
    Truncated(String),
    Syntax(String),
    DuplicateKey(String),
    TooDeep,
    TooManyValues,
    /// The callback of [`parse_array`] stopped.
    Stopped,
}

/// What happens beside the parse: the count so far, and a typed cause for serde's opaque error.
#[derive(Default)]
struct Watch {
    values: usize,
    cause: Option<FaultKind>,
}

/// Parses one value that fills all of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, Fault> {
    let watch = RefCell::new(Watch::default());
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let seed = ValueSeed { watch: &watch, depth: 0 };
    let parsed = seed.deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    parsed.map_err(|error| fault(error, &watch))
}

/// Parses an array that fills all of `bytes`, handing each element on as soon as it is read, so
/// that a file of many histories is never held as one tree. `element` returns whether to go on.
pub(super) fn parse_array(bytes: &[u8], element: &mut dyn FnMut(usize, Value) -> bool) -> Result<(), Fault> {
    let watch = RefCell::new(Watch::default());
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let elements = Elements { watch: &watch, element };
    let parsed = parser.deserialize_seq(elements).and_then(|()| parser.end());
    parsed.map_err(|error| fault(error, &watch))
}

fn fault(error: serde_json::Error, watch: &RefCell<Watch>) -> Fault {
    let text = error.to_string();
    // The place is a value of its own in our errors.
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(head, _)| head).to_owned();
    let cause = watch.borrow_mut().cause.take();
    let kind = cause.unwrap_or(match error.is_eof() {
        true => FaultKind::Truncated(message),
        false => FaultKind::Syntax(message),
    });
    Fault { line: error.line(), column: error.column(), kind }
}

#[derive(Clone, Copy)]
struct ValueSeed<'w> {
    watch: &'w RefCell<Watch>,
    depth: usize,
}

impl ValueSeed<'_> {
    fn stop<E: serde::de::Error>(&self, cause: FaultKind) -> E {
        self.watch.borrow_mut().cause = Some(cause);
        E::custom("stopped")
    }

    fn deeper<E: serde::de::Error>(&self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(self.stop(FaultKind::TooDeep));
        }
        Ok(Self { watch: self.watch, depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let values = self.watch.borrow().values + 1;
        if values > MAX_VALUES {
            return Err(self.stop(FaultKind::TooManyValues));
        }
        self.watch.borrow_mut().values = values;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number.map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut elements = Vec::new();
        while let Some(element) = access.next_element_seed(seed)? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut object = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(self.stop(FaultKind::DuplicateKey(key)));
            }
            let value = access.next_value_seed(seed)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

struct Elements<'w, 'f> {
    watch: &'w RefCell<Watch>,
    element: &'f mut dyn FnMut(usize, Value) -> bool,
}

impl<'de> Visitor<'de> for Elements<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let seed = ValueSeed { watch: self.watch, depth: 1 };
        let mut index = 0;
        while let Some(value) = access.next_element_seed(seed)? {
            if !(self.element)(index, value) {
                self.watch.borrow_mut().cause = Some(FaultKind::Stopped);
                return Err(A::Error::custom("stopped"));
            }
            self.watch.borrow_mut().values = 0;
            index += 1;
        }
        Ok(())
    }
}

//! Metadata values: their types, and walking over them without storing them.
use std::fmt::Display;

use super::{super::WeightsError, reader::Reader};

/// Arrays of arrays are allowed by the format and used by nobody; this bounds the recursion over them.
const MAX_NESTING: usize = 4;

/// The type of a metadata value; discriminants are the format's ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    const BY_ID: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    pub(super) fn read(reader: &mut Reader<'_>, field: &dyn Display) -> Result<Self, WeightsError> {
        let id = reader.u32(&format_args!("value type of {field}"))?;
        let known = usize::try_from(id).ok().and_then(|id| Self::BY_ID.get(id));
        known.copied().ok_or_else(|| WeightsError::ValueType {
            file: reader.file().into(),
            field: field.to_string(),
            found: id,
        })
    }

    /// Bytes of a scalar; of strings and arrays, the least a value can take (length; element type and count).
    fn least_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// Reads an integer of any width; `None` for other types, or a bool.
    pub(super) fn read_integer(
        self,
        reader: &mut Reader<'_>,
        field: &dyn Display,
    ) -> Result<Option<i128>, WeightsError> {
        let value = match self {
            Self::U8 => u8::from_le_bytes(reader.array(field)?).into(),
            Self::I8 => i8::from_le_bytes(reader.array(field)?).into(),
            Self::U16 => u16::from_le_bytes(reader.array(field)?).into(),
            Self::I16 => i16::from_le_bytes(reader.array(field)?).into(),
            Self::U32 => u32::from_le_bytes(reader.array(field)?).into(),
            Self::I32 => i32::from_le_bytes(reader.array(field)?).into(),
            Self::U64 => u64::from_le_bytes(reader.array(field)?).into(),
            Self::I64 => i64::from_le_bytes(reader.array(field)?).into(),
            Self::F32 | Self::F64 | Self::Bool | Self::String | Self::Array => return Ok(None),
        };
        Ok(Some(value))
    }

    /// Reads a float, a double rounded to single; `None` for other types.
    pub(super) fn read_float(
        self,
        reader: &mut Reader<'_>,
        field: &dyn Display,
    ) -> Result<Option<f32>, WeightsError> {
        match self {
            Self::F32 => reader.array(field).map(|b| Some(f32::from_le_bytes(b))),
            Self::F64 => reader.array(field).map(|b| Some(f64::from_le_bytes(b) as f32)),
            _ => Ok(None),
        }
    }
}

pub(super) fn read_bool(reader: &mut Reader<'_>, field: &dyn Display) -> Result<bool, WeightsError> {
    match reader.array::<1>(field)? {
        [0] => Ok(false),
        [1] => Ok(true),
        [found] => {
            Err(WeightsError::BoolValue { file: reader.file().into(), field: field.to_string(), found })
        }
    }
}

/// Element type and count of the array that begins here.
pub(super) fn read_array_head(
    reader: &mut Reader<'_>,
    field: &dyn Display,
) -> Result<(ValueType, u64), WeightsError> {
    let element = ValueType::read(reader, &format_args!("elements of {field}"))?;
    let count = reader.count(element.least_bytes(), &format_args!("count of {field}"))?;
    Ok((element, count))
}

/// Walks over a value and checks all of it: lengths, UTF-8, bools, nesting.
pub(super) fn check_value(
    reader: &mut Reader<'_>,
    value_type: ValueType,
    field: &dyn Display,
    depth: usize,
) -> Result<(), WeightsError> {
    match value_type {
        ValueType::String => reader.string(field).map(drop),
        ValueType::Bool => read_bool(reader, field).map(drop),
        ValueType::Array if depth == MAX_NESTING => Err(WeightsError::Nesting {
            file: reader.file().into(),
            field: field.to_string(),
            limit: MAX_NESTING,
        }),
        ValueType::Array => {
            let (element, count) = read_array_head(reader, field)?;
            match element {
                ValueType::String | ValueType::Bool | ValueType::Array => {
                    for _ in 0..count {
                        check_value(reader, element, field, depth + 1)?;
                    }
                    Ok(())
                }
                // The head has checked that so many scalars fit, so the product cannot overflow.
                scalar => reader.take(count * scalar.least_bytes(), field).map(drop),
            }
        }
        scalar => reader.take(scalar.least_bytes(), field).map(drop),
    }
}

//! Parquet rows as JSON values, through the record API of the parquet crate.
use std::{
    fs::File,
    panic::{self, AssertUnwindSafe},
    path::Path,
};

use parquet::{
    errors::ParquetError,
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row, reader::RowIter},
    schema::types::{Type, TypePtr},
};
use serde_json::Value;

use super::{
    ImportError, Location, parquet_check,
    records::{RecordSink, io_error},
};

/// Reads a file row by row.
///
/// The crate's readers assert on damage in several places that no check of ours can foresee
/// (levels that disagree with the schema, say); such a panic is caught at the two calls that run
/// its code, and becomes the error it should have been. Nothing the calls touch is used after.
pub(super) fn read_rows(path: &Path, sink: RecordSink<'_>) -> Result<(), ImportError> {
    let damaged = |message: String| ImportError::Parquet { path: path.to_owned(), message };
    let mut file = File::open(path).map_err(|source| io_error(path, source))?;
    parquet_check::check_footer(&mut file).map_err(damaged)?;
    let reader = caught(|| SerializedFileReader::new(file.try_clone()?)).map_err(damaged)?;
    let is_read = |root: &str| READ_COLUMNS.contains(&root);
    parquet_check::check_columns(&mut file, reader.metadata(), &is_read).map_err(damaged)?;
    let mut rows = caught(|| {
        let projection = projection(reader.metadata().file_metadata().schema())?;
        RowIter::from_file(projection, &reader)
    })
    .map_err(damaged)?;
    let mut index = 0;
    loop {
        let row = caught(|| rows.next().map(|row| row.and_then(row_value)).transpose());
        let row = row.map_err(|message| damaged(format!("row {index}: {message}")))?;
        let Some(row) = row else { return Ok(()) };
        sink(Location::Row(index), row)?;
        index += 1;
    }
}

/// Runs code of the parquet crate; an error and a panic both become a message.
fn caught<T>(run: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(payload) => {
            let message = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(format!("the file is damaged: {message}"))
        }
    }
}

/// Columns that some reader uses. An instance row also holds its history a second time, without
/// the constraint, and files of other sources hold columns of any type.
const READ_COLUMNS: [&str; 17] = [
    "id",
    "haystack_id",
    "task_id",
    "source",
    "system_prompt",
    "messages",
    "message_tokens",
    "token_length",
    "source_conversation_count",
    "conversations",
    "conversation",
    "history",
    "traj",
    "system",
    "role",
    "content",
    "sc_text",
];

/// The read columns of a schema; `None` where that is all of them.
fn projection(schema: &Type) -> Result<Option<Type>, ParquetError> {
    let is_read = |field: &&TypePtr| READ_COLUMNS.contains(&field.name());
    let fields: Vec<_> = schema.get_fields().iter().filter(is_read).cloned().collect();
    if fields.len() == schema.get_fields().len() {
        return Ok(None);
    }
    if fields.is_empty() {
        let names: Vec<&str> = schema.get_fields().iter().take(8).map(|field| field.name()).collect();
        let message = format!("no column of a supported format; it has [{}]", names.join(", "));
        return Err(ParquetError::General(message));
    }
    Type::group_type_builder(schema.name()).with_fields(fields).build().map(Some)
}

fn row_value(row: Row) -> Result<Value, ParquetError> {
    let read = |(name, field)| Ok((name, field_value(field)?));
    row.into_columns().into_iter().map(read).collect::<Result<_, _>>().map(Value::Object)
}

/// A field as the JSON value that the JSONL form of the same table holds.
fn field_value(field: Field) -> Result<Value, ParquetError> {
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::Bool(value),
        Field::Byte(value) => value.into(),
        Field::Short(value) => value.into(),
        Field::Int(value) => value.into(),
        Field::Long(value) => value.into(),
        Field::UByte(value) => value.into(),
        Field::UShort(value) => value.into(),
        Field::UInt(value) => value.into(),
        Field::ULong(value) => value.into(),
        Field::Float(value) => value.into(),
        Field::Double(value) => value.into(),
        Field::Str(text) => Value::String(text),
        // Some writers leave out the annotation that says that the bytes are text.
        Field::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes.data());
            let text = text.map_err(|_| general("a text column that is not UTF-8"))?;
            Value::String(text.to_owned())
        }
        Field::Group(row) => row_value(row)?,
        Field::ListInternal(list) => {
            let elements = list.elements().iter().cloned().map(field_value);
            Value::Array(elements.collect::<Result<_, _>>()?)
        }
        _ => {
            return Err(general("a column whose type (map, decimal or date) no format has"));
        }
    })
}

fn general(message: &str) -> ParquetError {
    ParquetError::General(message.to_owned())
}

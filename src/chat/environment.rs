//! The Jinja environment: minijinja set up to do what `transformers` has Jinja2 do.
//!
//! # Source
//! `transformers/utils/chat_template_utils.py`: `ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)`
//! with loop controls, `raise_exception`, `strftime_now` and its own `tojson`.
use minijinja::{
    Environment, Error, ErrorKind, State, Value,
    syntax::SyntaxConfig,
    value::{Kwargs, Serde, ValueKind},
};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::{
    ChatError,
    date::Date,
    python::{self, JsonStyle},
};

const NAME: &str = "chat_template";

/// Steps a rendering may take before messages are counted: the largest published template takes some ten thousand.
const BASE_FUEL: u64 = 5_000_000;
/// Templates that look ahead or back for each message take steps in the square of the number of messages.
const FUEL_PER_PAIR: u64 = 64;

/// `tojson` may indent by this much a level, lest a template write gigabytes of spaces.
const MAX_INDENT: usize = 64;

/// A compiled template.
#[derive(Clone)]
pub(super) struct Template {
    environment: Environment<'static>,
}

/// The words a template gave to `raise_exception`.
#[derive(Debug)]
struct Refusal(String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Why one rendering failed.
pub(super) enum RenderFailure {
    /// The template raised; its words.
    Refused(String),
    /// Anything else.
    Other(ChatError),
}

impl Template {
    /// Compiles a template.
    pub fn compile(source: &str) -> Result<Self, ChatError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(syntax_error)?);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(method);
        environment.set_formatter(|out, _, value| write_value(out, value));
        environment.add_function("raise_exception", |text: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Refusal(text)))
        });
        environment.add_filter("tojson", to_json);
        environment.add_filter("string", |value: &Value| to_serde(value).map(|value| python::to_str(&value)));
        environment.add_filter("trim", trim);
        environment.add_test("sequence", is_sequence);
        environment.add_template_owned(NAME, without_generation_tags(source)).map_err(syntax_error)?;
        Ok(Self { environment })
    }

    /// Renders with the variables `transformers` passes.
    pub fn render(
        &self,
        context: serde_json::Value,
        messages: usize,
        date: Date,
    ) -> Result<String, RenderFailure> {
        let mut environment = self.environment.clone();
        environment.add_function("strftime_now", move |format: String| {
            let unknown = |directive| format!("strftime_now does not know {directive}");
            date.strftime(&format)
                .map_err(|directive| Error::new(ErrorKind::InvalidOperation, unknown(directive)))
        });
        let pairs = (messages as u64).saturating_mul(messages as u64);
        let fuel = BASE_FUEL.saturating_add(pairs.saturating_mul(FUEL_PER_PAIR));
        environment.set_fuel(Some(fuel));
        let template =
            environment.get_template(NAME).map_err(|error| RenderFailure::Other(syntax_error(error)))?;
        template.render(Value::from(Serde(context))).map_err(|error| failure(&error, fuel, messages))
    }
}

fn syntax_error(error: Error) -> ChatError {
    ChatError::Syntax { line: error.line().unwrap_or(0), message: error.to_string() }
}

fn failure(error: &Error, fuel: u64, messages: usize) -> RenderFailure {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(Refusal(text)) = cause.downcast_ref() {
            return RenderFailure::Refused(text.clone());
        }
        if cause.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::OutOfFuel) {
            return RenderFailure::Other(ChatError::OutOfFuel { fuel, messages });
        }
        source = cause.source();
    }
    RenderFailure::Other(ChatError::Failed { line: error.line().unwrap_or(0), message: error.to_string() })
}

fn to_serde(value: &Value) -> Result<serde_json::Value, Error> {
    let failed = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    serde_json::to_value(value).map_err(failed)
}

/// `{{ value }}` as Python writes it: `None` and `True`, not `none` and `true`.
fn write_value(out: &mut minijinja::Output, value: &Value) -> Result<(), Error> {
    let written = match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => std::fmt::Write::write_str(out, value.as_str().unwrap_or_default()),
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            std::fmt::Write::write_str(out, &python::to_str(&to_serde(value)?))
        }
        _ => std::fmt::Write::write_fmt(out, format_args!("{value}")),
    };
    written.map_err(|error| Error::new(ErrorKind::WriteFailure, error.to_string()))
}

fn to_json(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::BadSerialization, "an undefined value is not JSON serializable"));
    }
    let indent: Option<usize> = kwargs.get("indent")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let ensure_ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    let sort_keys: Option<bool> = kwargs.get("sort_keys")?;
    kwargs.assert_all_used()?;
    if let Some(indent) = indent.filter(|indent| *indent > MAX_INDENT) {
        let message = format!("an indent of {indent}, more than {MAX_INDENT}");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let default_item = if indent.is_some() { "," } else { ", " };
    let [item_separator, key_separator] = match separators.as_deref() {
        None => [default_item, ": "].map(str::to_owned),
        Some([item, key]) => [item.clone(), key.clone()],
        Some(_) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "separators needs two strings"));
        }
    };
    let style = JsonStyle {
        ensure_ascii: ensure_ascii.unwrap_or(false),
        indent,
        item_separator,
        key_separator,
        sort_keys: sort_keys.unwrap_or(false),
    };
    Ok(python::json_dumps(&to_serde(value)?, &style))
}

fn trim(value: &Value, characters: Option<&str>) -> Result<String, Error> {
    let text = python::to_str(&match value.is_undefined() {
        true => serde_json::Value::String(String::new()),
        false => to_serde(value)?,
    });
    Ok(match characters {
        None => text.trim_matches(python::is_space).to_owned(),
        Some(characters) => text.trim_matches(|character| characters.contains(character)).to_owned(),
    })
}

/// Jinja2 calls a sequence whatever has a length and can be indexed: strings and mappings too.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined() || matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

/// Python's methods; `strip` without arguments strips what Python calls white space.
fn method(state: &mut State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let text = value.as_str().filter(|_| arguments.is_empty());
    match (text, name) {
        (Some(text), "strip") => Ok(text.trim_matches(python::is_space).into()),
        (Some(text), "lstrip") => Ok(text.trim_start_matches(python::is_space).into()),
        (Some(text), "rstrip") => Ok(text.trim_end_matches(python::is_space).into()),
        _ => unknown_method_callback(state, value, name, arguments),
    }
}

/// `{% generation %}` marks the assistant's text for training; in rendering it is only a scope, which `with` is too.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let inner_start = open + 2;
        let Some(close) = rest[inner_start..].find("%}") else {
            break;
        };
        let inner = &rest[inner_start..inner_start + close];
        let keyword = inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        out.push_str(&rest[..inner_start]);
        out.push_str(&match keyword {
            "generation" => inner.replace("generation", "with"),
            "endgeneration" => inner.replace("endgeneration", "endwith"),
            _ => inner.to_owned(),
        });
        rest = &rest[inner_start + close..];
    }
    out.push_str(rest);
    out
}

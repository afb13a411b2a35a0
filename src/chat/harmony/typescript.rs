//! JSON schemas as TypeScript types, to the letter of what gpt-oss was trained to read.
use serde_json::Value;

/// How much deeper a property's type is indented than the property.
const STEP: &str = "    ";

/// The type that a schema describes. A schema that says nothing known is `any`.
pub(super) fn type_of(schema: &Value, indent: &str) -> String {
    if let Some(variants) = schema["oneOf"].as_array() {
        let lines = variants.iter().map(|variant| {
            let notes = [note(variant), default_of(variant, Enums::AsJson)];
            format!("\n{indent} | {}{}", nullable(variant, &format!("{indent}   ")), trailing(notes))
        });
        return lines.collect();
    }
    if let Some(names) = schema["type"].as_array() {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).map(name_of).collect();
        if !names.is_empty() {
            return names.join(" | ");
        }
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, indent),
        Some("string") => {
            let values = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let values: Vec<String> = values.map(|value| format!("\"{value}\"")).collect();
            if values.is_empty() { "string".to_owned() } else { values.join(" | ") }
        }
        Some("array") => match schema.get("items") {
            Some(items) => format!("{}[]", type_of(items, indent)),
            None => "Array<any>".to_owned(),
        },
        Some(name @ ("number" | "integer" | "boolean")) => name_of(name).to_owned(),
        _ => "any".to_owned(),
    }
}

fn name_of(json_type: &str) -> &str {
    if json_type == "integer" { "number" } else { json_type }
}

/// The type, with `null` where the schema allows it.
fn nullable(schema: &Value, indent: &str) -> String {
    let name = type_of(schema, indent);
    let adds_null = schema["nullable"] == true && !name.contains("null");
    if adds_null { name + " | null" } else { name }
}

fn object(schema: &Value, indent: &str) -> String {
    let mut out = note(schema).map(|note| format!("{indent}// {note}\n")).unwrap_or_default();
    out.push_str("{\n");
    let required: Vec<&Value> = schema["required"].as_array().into_iter().flatten().collect();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.iter().any(|name| name.as_str() == Some(key));
        let name = format!("{key}{}", if is_required { "" } else { "?" });
        push_property(&mut out, &name, property, indent);
    }
    out + indent + "}"
}

fn push_property(out: &mut String, name: &str, property: &Value, indent: &str) {
    let mut comment = |line: &str| out.push_str(&format!("{indent}//{line}\n"));
    if let Some(title) = property["title"].as_str() {
        comment(&format!(" {title}"));
        comment("");
    }
    let variants = property["oneOf"].as_array();
    if let (None, Some(note)) = (variants, note(property)) {
        comment(&format!(" {note}"));
    }
    if let Some(examples) = property["examples"].as_array().filter(|examples| !examples.is_empty()) {
        comment(" Examples:");
        for example in examples.iter().filter_map(Value::as_str) {
            comment(&format!(" - \"{example}\""));
        }
    }
    match variants {
        Some(variants) => push_variants(out, name, property, variants, indent),
        None => {
            let kind = nullable(property, &format!("{indent}{STEP}"));
            let notes = [default_of(property, Enums::Bare)];
            out.push_str(&format!("{indent}{name}: {kind},{}\n", trailing(notes)));
        }
    }
}

/// A property that is one of several types. Its description stands above it, unless the first variant has the same.
fn push_variants(out: &mut String, name: &str, property: &Value, variants: &[Value], indent: &str) {
    let description = note(property);
    let above = description.clone().filter(|above| variants.first().and_then(note).as_ref() != Some(above));
    for line in above.iter().cloned().chain(default_of(property, Enums::Bare)) {
        out.push_str(&format!("{indent}// {line}\n"));
    }
    out.push_str(&format!("{indent}{name}:\n"));
    for (index, variant) in variants.iter().enumerate() {
        let own = note(variant).filter(|own| {
            let hidden = index == 0 && above.is_some();
            !hidden && Some(own) != description.as_ref()
        });
        let notes = trailing([own, default_of(variant, Enums::Bare)]);
        out.push_str(&format!("{indent} | {}{notes}\n", nullable(variant, &format!("{indent}   "))));
    }
    out.push_str(&format!("{indent},\n"));
}

fn note(schema: &Value) -> Option<String> {
    schema["description"].as_str().map(str::to_owned)
}

/// How the default of an enumeration is written.
#[derive(Clone, Copy, PartialEq)]
enum Enums {
    /// Without quotes.
    Bare,
    /// As JSON.
    AsJson,
}

fn default_of(schema: &Value, enums: Enums) -> Option<String> {
    let default = schema.get("default")?;
    let is_enum = schema["enum"].as_array().is_some_and(|values| !values.is_empty());
    Some(match default.as_str() {
        Some(text) if !is_enum => format!("default: \"{text}\""),
        Some(text) if enums == Enums::Bare => format!("default: {text}"),
        _ => format!("default: {default}"),
    })
}

fn trailing<const N: usize>(notes: [Option<String>; N]) -> String {
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    if notes.is_empty() { String::new() } else { format!(" // {}", notes.join(" ")) }
}

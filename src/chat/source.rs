//! Where a model keeps its chat template.
use std::path::Path;

use serde_json::Value;

use super::ChatError;
use crate::weights::{ModelMetadata, Weights};

/// The template of a model, from `chat_template.jinja`, `tokenizer_config.json` or `chat_template.json` of its folder, in
/// this order, or from its GGUF file's `tokenizer.chat_template`.
pub(super) fn find(weights: &Weights) -> Result<Option<String>, ChatError> {
    match weights.metadata() {
        ModelMetadata::Gguf(metadata) => Ok(metadata.string("tokenizer.chat_template")?.map(str::to_owned)),
        ModelMetadata::HfFolder { folder, .. } => in_folder(folder),
    }
}

/// As [`find`], in a folder.
pub(super) fn in_folder(folder: &Path) -> Result<Option<String>, ChatError> {
    if let Some(source) = read(&folder.join("chat_template.jinja"))? {
        return Ok(Some(source));
    }
    for name in ["tokenizer_config.json", "chat_template.json"] {
        let path = folder.join(name);
        let Some(text) = read(&path)? else { continue };
        let damaged = |message: String| ChatError::Damaged { path: path.clone(), message };
        let config: Value = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        match &config["chat_template"] {
            Value::Null => {}
            Value::String(source) => return Ok(Some(source.clone())),
            // Several templates by name, of which `default` is the one for chat.
            Value::Array(named) => {
                let default = named.iter().find(|entry| entry["name"] == "default");
                let source = default.and_then(|entry| entry["template"].as_str());
                return source
                    .map(|source| Some(source.to_owned()))
                    .ok_or_else(|| damaged("chat_template lists no template named default".to_owned()));
            }
            _ => {
                return Err(damaged("chat_template is neither a text nor a list".to_owned()));
            }
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Result<Option<String>, ChatError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ChatError::Read { path: path.to_owned(), source }),
    }
}

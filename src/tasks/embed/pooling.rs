//! [`Pooling`]: how a text's hidden states become one vector, and where a model says so.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::EmbedError;

/// More than any such file has.
const MAX_BYTES: u64 = 1 << 20;

/// How the hidden states of a text become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
}

/// What the files of sentence-transformers beside a model say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) pooling: Option<Pooling>,
    pub(super) max_tokens: Option<usize>,
}

#[derive(Deserialize)]
struct Module {
    #[serde(default)]
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

impl Published {
    /// Reads `modules.json`, the pooling module's `config.json` and `sentence_bert_config.json` where they are.
    ///
    /// A pooling folder of the usual name counts without a `modules.json` too.
    pub(super) fn read(folder: &Path) -> Result<Self, EmbedError> {
        let mut pooling_folder = Some("1_Pooling".to_owned());
        if let Some((file, modules)) = read(&folder.join("modules.json"))? {
            let modules: Vec<Module> =
                serde_json::from_value(modules).map_err(|error| damaged(&file, error))?;
            pooling_folder = None;
            for module in modules {
                match module.kind.rsplit('.').next().unwrap_or_default() {
                    "Transformer" | "Normalize" => {}
                    "Pooling" => pooling_folder = Some(module.path),
                    _ => return Err(damaged(&file, format!("a module {} is not supported", module.kind))),
                }
            }
        }
        let pooling = match pooling_folder {
            Some(name) => read_pooling(&folder.join(name).join("config.json"))?,
            None => None,
        };
        let max_tokens = match read(&folder.join("sentence_bert_config.json"))? {
            Some((file, config)) => match &config["max_seq_length"] {
                Value::Null => None,
                value => {
                    Some(value.as_u64().and_then(|tokens| usize::try_from(tokens).ok()).ok_or_else(|| {
                        damaged(&file, format!("max_seq_length is {value}, not a number of tokens"))
                    })?)
                }
            },
            None => None,
        };
        Ok(Self { pooling, max_tokens })
    }
}

/// The one mode that a pooling config switches on. Newer files name it in `pooling_mode`.
fn read_pooling(path: &Path) -> Result<Option<Pooling>, EmbedError> {
    let Some((file, config)) = read(path)? else { return Ok(None) };
    let mut modes: Vec<&str> = config["pooling_mode"].as_str().into_iter().collect();
    let switches = config.as_object().into_iter().flatten();
    modes.extend(switches.filter_map(|(name, value)| {
        name.strip_prefix("pooling_mode_").filter(|_| value.as_bool() == Some(true))
    }));
    match modes.as_slice() {
        ["mean" | "mean_tokens"] => Ok(Some(Pooling::Mean)),
        ["cls" | "cls_token"] => Ok(Some(Pooling::Cls)),
        ["lasttoken"] => Ok(Some(Pooling::Last)),
        other => {
            let supported = "one of mean, cls and lasttoken is supported";
            Err(damaged(&file, format!("pools by {}: {supported}", other.join(" and "))))
        }
    }
}

fn read(path: &Path) -> Result<Option<(PathBuf, Value)>, EmbedError> {
    let io = |source| EmbedError::Read { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            let problem = format!("{} bytes are more than such a file's {MAX_BYTES}", metadata.len());
            return Err(damaged(path, problem));
        }
        Ok(_) => {}
    }
    let bytes = std::fs::read(path).map_err(io)?;
    let value = serde_json::from_slice(&bytes).map_err(|error| damaged(path, error))?;
    Ok(Some((path.to_owned(), value)))
}

fn damaged(path: &Path, problem: impl std::fmt::Display) -> EmbedError {
    EmbedError::Config { path: path.to_owned(), problem: problem.to_string() }
}

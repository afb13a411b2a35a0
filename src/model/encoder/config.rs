//! [`EncoderConfig`]: shapes and settings of an encoder, read from `config.json`.

use serde::Deserialize;

use crate::model::ModelError;
use crate::weights::{ModelMetadata, Weights};

/// An encoder family longwick has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncoderFamily {
    /// BERT (MiniLM, mBERT): positions from 0.
    Bert,
    /// RoBERTa and XLM-RoBERTa: positions from behind the padding token's id.
    Roberta,
}

/// Shapes and settings of an encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderConfig {
    /// The family.
    pub family: EncoderFamily,
    /// Rows of the word embedding.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// Layers.
    pub num_layers: usize,
    /// Heads.
    pub num_heads: usize,
    /// Rows of the position embedding.
    pub max_positions: usize,
    /// The row of a sequence's first token in it.
    pub first_position: usize,
    /// Rows of the token type embedding, of which the first is used.
    pub type_vocab_size: usize,
    /// Epsilon of every layer norm.
    pub layer_norm_eps: f32,
    /// The padding token, which no input holds.
    pub pad_token_id: u32,
    /// Whether the config names a token classifier's architecture.
    pub classifies_tokens: bool,
}

/// The fields of `config.json` that matter, as transformers writes them.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    architectures: Vec<String>,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    max_position_embeddings: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "small")]
    layer_norm_eps: f32,
    pad_token_id: Option<u32>,
    hidden_act: Option<String>,
    position_embedding_type: Option<String>,
}

fn two() -> usize {
    2
}

fn small() -> f32 {
    1e-12
}

/// The family that `config.json` names as its `model_type`; `None` for a model that is no encoder of ours.
fn family(weights: &Weights) -> Option<EncoderFamily> {
    let ModelMetadata::HfFolder { config, .. } = weights.metadata() else { return None };
    match config["model_type"].as_str()? {
        "bert" => Some(EncoderFamily::Bert),
        "roberta" | "xlm-roberta" => Some(EncoderFamily::Roberta),
        _ => None,
    }
}

impl EncoderConfig {
    /// Whether opened weights are an encoder's, by their `model_type`.
    pub fn is_encoder(weights: &Weights) -> bool {
        family(weights).is_some()
    }

    /// Reads the config of opened weights.
    ///
    /// # Errors
    /// [`ModelError::UnsupportedArchitecture`] for what is no encoder; [`ModelError::Config`] naming file and field.
    pub fn from_weights(weights: &Weights) -> Result<Self, ModelError> {
        let (config, file) = match weights.metadata() {
            ModelMetadata::HfFolder { folder, config, .. } => (config, folder.join("config.json")),
            ModelMetadata::Gguf(_) => {
                return Err(unsupported(weights.path().display().to_string(), "a GGUF file"));
            }
        };
        let file = file.display().to_string();
        let Some(family) = family(weights) else {
            let found = config["model_type"].as_str().unwrap_or("no model_type");
            return Err(unsupported(file, found));
        };
        let fields = Fields::deserialize(config).map_err(|error| ModelError::Config {
            file: file.clone(),
            field: "an encoder's config".to_owned(),
            reason: error.to_string(),
        })?;
        refuse_what_is_not_built(&fields, &file)?;
        let pad_token_id = fields.pad_token_id.unwrap_or(match family {
            EncoderFamily::Bert => 0,
            EncoderFamily::Roberta => 1,
        });
        let config = Self {
            family,
            vocab_size: fields.vocab_size,
            hidden_size: fields.hidden_size,
            intermediate_size: fields.intermediate_size,
            num_layers: fields.num_hidden_layers,
            num_heads: fields.num_attention_heads,
            max_positions: fields.max_position_embeddings,
            first_position: match family {
                EncoderFamily::Bert => 0,
                EncoderFamily::Roberta => pad_token_id as usize + 1,
            },
            type_vocab_size: fields.type_vocab_size,
            layer_norm_eps: fields.layer_norm_eps,
            pad_token_id,
            classifies_tokens: fields
                .architectures
                .iter()
                .any(|name| name.ends_with("ForTokenClassification")),
        };
        config.check(&file)?;
        Ok(config)
    }

    /// Elements a head.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_heads
    }

    /// Most tokens of a sequence, its special tokens included.
    pub fn context_length(&self) -> usize {
        self.max_positions - self.first_position
    }

    /// Multiply-adds that the layers' weights cost for one token, attention's own left out.
    pub fn weights_per_token(&self) -> u64 {
        let layer = self.hidden_size as u64 * (4 * self.hidden_size + 2 * self.intermediate_size) as u64;
        layer * self.num_layers as u64
    }

    fn check(&self, file: &str) -> Result<(), ModelError> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_layers),
            ("num_attention_heads", self.num_heads),
            ("max_position_embeddings", self.max_positions),
            ("type_vocab_size", self.type_vocab_size),
        ];
        for (field, size) in sizes {
            if size == 0 || size > 1 << 24 {
                return refuse(file, field, format!("{size} is not a size an encoder can have"));
            }
        }
        if self.max_positions <= self.first_position {
            let reason = format!(
                "{} positions, and the first token has row {}",
                self.max_positions, self.first_position
            );
            return refuse(file, "max_position_embeddings", reason);
        }
        let dim = self.head_dim();
        if dim * self.num_heads != self.hidden_size || !dim.is_multiple_of(8) || dim == 0 || dim > 512 {
            let reason = format!(
                "{} heads do not part a width of {} into heads of a multiple of 8, at most 512",
                self.num_heads, self.hidden_size
            );
            return refuse(file, "num_attention_heads", reason);
        }
        Ok(())
    }
}

fn refuse_what_is_not_built(fields: &Fields, file: &str) -> Result<(), ModelError> {
    if let Some(other) = fields.hidden_act.as_deref().filter(|name| *name != "gelu") {
        return refuse(file, "hidden_act", format!("{other:?} is not supported (supported: gelu)"));
    }
    match fields.position_embedding_type.as_deref() {
        None | Some("absolute") => Ok(()),
        Some(other) => {
            let reason = format!("{other:?} is not supported (supported: absolute)");
            refuse(file, "position_embedding_type", reason)
        }
    }
}

fn refuse<T>(file: &str, field: &str, reason: String) -> Result<T, ModelError> {
    Err(ModelError::Config { file: file.to_owned(), field: field.to_owned(), reason })
}

fn unsupported(file: String, found: &str) -> ModelError {
    ModelError::UnsupportedArchitecture {
        file,
        architecture: found.to_owned(),
        supported: "encoders: bert, roberta, xlm-roberta in a Hugging Face folder".to_owned(),
    }
}

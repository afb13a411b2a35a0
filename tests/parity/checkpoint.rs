//! [`Checkpoint`]: a checkpoint in memory, to be written in another way.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use longwick::engine::{Engine, Request, RequestKind, RequestOutput};
use safetensors::tensor::{Dtype, SafeTensors, View, serialize};
use serde_json::{Map, Value, json};

use crate::{assets, drawn};

/// Own checkpoints of each family, with their weights.
const OWN: [&str; 9] = [
    "llama",
    "qwen3",
    "qwen3_moe",
    "qwen3_moe_one_expert",
    "gpt_oss",
    "gemma3",
    "gemma4",
    "gemma4_keys_are_values",
    "qwen3_5",
];

/// Those of the shared data.
pub const SHARED: [&str; 9] = [
    "qwen3",
    "qwen3_moe",
    "gpt_oss",
    "gemma3",
    "gemma3_rope_linear",
    "gemma4",
    "gemma4_e2b_like",
    "gemma4_31b_like",
    "qwen3_5",
];

/// Every checkpoint in safetensors that there is.
pub fn every_checkpoint() -> Vec<PathBuf> {
    let own = OWN.iter().map(|name| assets::own_fixture(name));
    let drawn = drawn::SHAPES.iter().map(|name| drawn::drawn_fixture(name));
    let shared = SHARED.iter().filter_map(|name| assets::shared_data(&format!("tiny/{name}")));
    own.chain(drawn).chain(shared).collect()
}

/// A tensor in memory.
#[derive(Clone)]
pub struct Owned {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

impl View for &Owned {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.data)
    }

    fn data_len(&self) -> usize {
        self.data.len()
    }
}

/// A checkpoint in memory; the config is the text model's.
pub struct Checkpoint {
    pub config: Map<String, Value>,
    pub tensors: Vec<(String, Owned)>,
}

impl Owned {
    /// Its elements, where they are numbers of 16 or 32 bits.
    pub fn numbers(&self) -> Option<Vec<f32>> {
        let halves = || self.data.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        match self.dtype {
            Dtype::BF16 => Some(halves().map(|bits| half::bf16::from_bits(bits).to_f32()).collect()),
            Dtype::F16 => Some(halves().map(|bits| half::f16::from_bits(bits).to_f32()).collect()),
            Dtype::F32 => {
                Some(self.data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
            }
            _ => None,
        }
    }

    /// The same shape with these elements, rounded to a type of 16 or 32 bits.
    pub fn of_numbers(&self, numbers: &[f32], dtype: Dtype) -> Self {
        let numbers = numbers.iter();
        let data = match dtype {
            Dtype::BF16 => numbers.flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect(),
            Dtype::F16 => numbers.flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect(),
            _ => numbers.flat_map(|x| x.to_le_bytes()).collect(),
        };
        Self { dtype, shape: self.shape.clone(), data }
    }
}

impl Checkpoint {
    pub fn read(folder: &Path) -> Self {
        let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
        let config: Map<String, Value> = serde_json::from_str(&config).unwrap();
        let config = config.get("text_config").and_then(Value::as_object).unwrap_or(&config).clone();
        let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let owned = tensors.tensors().into_iter().map(|(name, view)| {
            let tensor =
                Owned { dtype: view.dtype(), shape: view.shape().to_vec(), data: view.data().to_vec() };
            (name, tensor)
        });
        Self { config, tensors: owned.collect() }
    }

    /// Writes the tensors to `shards` files, and the config as it is given.
    pub fn write(&self, folder: &Path, config: &Value, shards: usize) {
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
        let mut places = Map::new();
        for (shard, tensors) in self.tensors.chunks(self.tensors.len().div_ceil(shards)).enumerate() {
            let file = match shards {
                1 => "model.safetensors".to_owned(),
                _ => format!("model-{:05}-of-{shards:05}.safetensors", shard + 1),
            };
            places.extend(tensors.iter().map(|(name, _)| (name.clone(), json!(file))));
            let views = tensors.iter().map(|(name, tensor)| (name, tensor));
            std::fs::write(folder.join(file), serialize(views, None).unwrap()).unwrap();
        }
        if shards > 1 {
            let index = json!({"metadata": {"total_size": 0}, "weight_map": places});
            std::fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
        }
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        for (name, _) in &mut self.tensors {
            if let Some(rest) = name.strip_prefix(from) {
                *name = format!("{to}{rest}");
            }
        }
    }
}

/// Ids and the bits of their log-probabilities, at each position.
pub type LogitBits = Vec<(Vec<u32>, Vec<u32>)>;

/// The log-probabilities of the whole vocabulary at every position of a prompt, by their bits.
pub fn every_logit(engine: &mut Engine) -> LogitBits {
    let vocab = engine.config().vocab_size as u32;
    let prompt: Vec<u32> = (0..70).map(|i| 3 + i * 37 % (vocab - 3)).collect();
    let kind = RequestKind::Logits { positions: (0..prompt.len()).collect(), top: vocab as usize };
    match engine.run(Request::new(prompt, kind)).unwrap().output {
        RequestOutput::Logits(found) => found
            .into_iter()
            .map(|at| (at.ids, at.logprobs.into_iter().map(f32::to_bits).collect()))
            .collect(),
        other => panic!("logits were asked for, and {other:?} came"),
    }
}

/// What a checkpoint gives once it is written in another way, and what the engine says it left out.
pub fn rewritten(
    checkpoint: &mut Checkpoint,
    rewrite: impl FnOnce(&mut Checkpoint, &Path),
) -> (LogitBits, Vec<(String, usize)>) {
    let folder = tempfile::tempdir().unwrap();
    rewrite(checkpoint, folder.path());
    let mut engine = assets::load(folder.path(), crate::options(16 << 20));
    (every_logit(&mut engine), engine.skipped().to_vec())
}

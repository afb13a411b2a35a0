//! The same checkpoint in other shapes on disk gives the same bits: sharded, with the prefixes and towers of multimodal
//! checkpoints around it, in f32.

use std::borrow::Cow;
use std::path::Path;

use longwick::engine::{Engine, Request, RequestKind, RequestOutput};
use safetensors::tensor::{Dtype, SafeTensors, View, serialize};
use serde_json::{Map, Value, json};

use crate::assets;

const OWN: [&str; 5] = ["llama", "qwen3", "gemma3", "gemma4", "gemma4_keys_are_values"];

/// A tensor in memory.
#[derive(Clone)]
struct Owned {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
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
struct Checkpoint {
    config: Map<String, Value>,
    tensors: Vec<(String, Owned)>,
}

impl Checkpoint {
    fn read(folder: &Path) -> Self {
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
    fn write(&self, folder: &Path, config: &Value, shards: usize) {
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

    fn rename(&mut self, from: &str, to: &str) {
        for (name, _) in &mut self.tensors {
            if let Some(rest) = name.strip_prefix(from) {
                *name = format!("{to}{rest}");
            }
        }
    }
}

/// The log-probabilities of the whole vocabulary at every position of a prompt, by their bits.
pub fn every_logit(engine: &mut Engine) -> Vec<(Vec<u32>, Vec<u32>)> {
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

/// Rewrites each checkpoint, loads it and compares; returns what the engines say they left out.
fn check(rewrite: impl Fn(&mut Checkpoint, &Path)) -> Vec<Vec<(String, usize)>> {
    let check_one = |name: &str| {
        let original = assets::own_fixture(name);
        let expected = every_logit(&mut assets::load(&original, crate::options(16 << 20)));
        let folder = tempfile::tempdir().unwrap();
        rewrite(&mut Checkpoint::read(&original), folder.path());
        let mut engine = assets::load(folder.path(), crate::options(16 << 20));
        assert!(every_logit(&mut engine) == expected, "{name}: other bits");
        engine.skipped().to_vec()
    };
    OWN.iter().map(|name| check_one(name)).collect()
}

#[test]
fn sharded() {
    check(|checkpoint, folder| {
        let config = Value::Object(checkpoint.config.clone());
        checkpoint.write(folder, &config, 3);
    });
}

#[test]
fn in_f32() {
    check(|checkpoint, folder| {
        for (_, tensor) in &mut checkpoint.tensors {
            let halves = tensor.data.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
            let wide: Option<Vec<f32>> = match tensor.dtype {
                Dtype::BF16 => Some(halves.map(|bits| half::bf16::from_bits(bits).to_f32()).collect()),
                Dtype::F16 => Some(halves.map(|bits| half::f16::from_bits(bits).to_f32()).collect()),
                _ => None,
            };
            if let Some(wide) = wide {
                tensor.dtype = Dtype::F32;
                tensor.data = wide.into_iter().flat_map(f32::to_le_bytes).collect();
            }
        }
        let config = Value::Object(checkpoint.config.clone());
        checkpoint.write(folder, &config, 1);
    });
}

/// Both prefixes of multimodal checkpoints, each with towers that a text model leaves out and says so.
#[test]
fn inside_a_multimodal_checkpoint() {
    let tower = Owned { dtype: Dtype::F32, shape: vec![2, 2], data: vec![0; 16] };
    for (prefix, head) in
        [("model.language_model.", "lm_head."), ("language_model.model.", "language_model.lm_head.")]
    {
        let skipped = check(|checkpoint, folder| {
            checkpoint.rename("lm_head.", head);
            checkpoint.rename("model.", prefix);
            for name in [
                "vision_tower.a.weight",
                "vision_tower.b.weight",
                "audio_tower.a.weight",
                "embed_audio.weight",
            ] {
                checkpoint.tensors.push((format!("model.{name}"), tower.clone()));
            }
            let text = &checkpoint.config;
            let config =
                json!({"model_type": "outer", "text_config": text, "vision_config": {"hidden_size": 3}});
            checkpoint.write(folder, &config, 1);
        });
        for mut skipped in skipped {
            skipped.sort();
            let parts: Vec<(&str, usize)> =
                skipped.iter().map(|(part, count)| (part.as_str(), *count)).collect();
            assert_eq!(
                parts,
                [("model.audio_tower", 1), ("model.embed_audio", 1), ("model.vision_tower", 2)]
            );
        }
    }
}

//! The same checkpoint in other shapes on disk gives the same bits: sharded, with the prefixes and towers of multimodal
//! checkpoints around it, in wider and narrower types.

use std::path::Path;

use safetensors::tensor::Dtype;
use serde_json::{Value, json};

use crate::assets;
use crate::checkpoint::{Checkpoint, Owned, every_checkpoint, every_logit, rewritten};

/// Rewrites each checkpoint, loads it and compares; returns what the engines say they left out.
fn check(rewrite: impl Fn(&mut Checkpoint, &Path)) -> Vec<Vec<(String, usize)>> {
    let check_one = |original: &Path| {
        let expected = every_logit(&mut assets::load(original, crate::options(16 << 20)));
        let (found, skipped) = rewritten(&mut Checkpoint::read(original), &rewrite);
        assert!(found == expected, "{}: other bits", original.display());
        skipped
    };
    every_checkpoint().iter().map(|path| check_one(path)).collect()
}

#[test]
fn sharded() {
    check(|checkpoint, folder| {
        let config = Value::Object(checkpoint.config.clone());
        checkpoint.write(folder, &config, 3);
    });
}

/// The tensors' numbers in `dtype`, those of 4-bit blocks as they are; whether any was rounded.
fn convert(checkpoint: &mut Checkpoint, dtype: Dtype) -> bool {
    let mut was_rounded = false;
    for (_, tensor) in &mut checkpoint.tensors {
        if let Some(numbers) = tensor.numbers() {
            *tensor = tensor.of_numbers(&numbers, dtype);
            was_rounded |= tensor.numbers().unwrap() != numbers;
        }
    }
    was_rounded
}

fn write_whole(checkpoint: &mut Checkpoint, folder: &Path) {
    checkpoint.write(folder, &Value::Object(checkpoint.config.clone()), 1);
}

#[test]
fn in_f32() {
    check(|checkpoint, folder| {
        assert!(!convert(checkpoint, Dtype::F32), "f32 holds every number of 16 bits");
        write_whole(checkpoint, folder);
    });
}

/// f16 does not hold every bf16, nor bf16 every f16: a checkpoint that was rounded gives what its rounded numbers give in
/// f32, and one that was not (all that are drawn, and those stored so) gives what it gave before as well.
#[test]
fn in_half_precision() {
    for dtype in [Dtype::F16, Dtype::BF16] {
        let mut exact = 0;
        for path in every_checkpoint() {
            let mut checkpoint = Checkpoint::read(&path);
            let was_rounded = convert(&mut checkpoint, dtype);
            let (narrow, _) = rewritten(&mut checkpoint, write_whole);
            let (wide, _) = rewritten(&mut checkpoint, |checkpoint, folder| {
                convert(checkpoint, Dtype::F32);
                write_whole(checkpoint, folder);
            });
            assert!(narrow == wide, "{}: other bits in {dtype:?}", path.display());
            if !was_rounded {
                let before = every_logit(&mut assets::load(&path, crate::options(16 << 20)));
                assert!(narrow == before, "{}: other bits in {dtype:?} than before", path.display());
                exact += 1;
            }
        }
        assert!(exact > crate::drawn::SHAPES.len(), "{exact} checkpoints were exact in {dtype:?}");
    }
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

//! Checkpoints whose weights are drawn, not stored: `tests/fixtures/shapes`, as `scripts/export_shape_fixtures.py` describes
//! them.

use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde::Deserialize;

use crate::assets;

/// Each model family in two shapes but llama and dense Qwen3: heads in odd numbers and of 64 to 512 elements, one expert,
/// windows larger than the prompts.
pub const SHAPES: [&str; 12] = [
    "llama_five_heads",
    "qwen3_seven_heads",
    "qwen3_moe_three_heads",
    "qwen3_moe_five_heads",
    "gpt_oss_seven_heads",
    "gpt_oss_wide_window",
    "gemma3_three_heads",
    "gemma3_five_heads",
    "gemma4_published_heads",
    "gemma4_five_heads",
    "qwen3_5_published_heads",
    "qwen3_5_five_heads",
];

#[derive(Deserialize)]
struct Recipe {
    seed: u64,
    tensors: Vec<Tensor>,
}

#[derive(Deserialize)]
struct Tensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    draw: Draw,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Draw {
    Numbers { offset: f32, gain: f32, shift: u32 },
    Bytes { bytes: [u16; 2] },
}

/// SplitMix64 (Steele, Lea and Flood 2014), the uppermost byte of each output.
struct SplitMix64(u64);

impl SplitMix64 {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 56) as u8
    }
}

/// 64-bit FNV-1a.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

impl Tensor {
    fn data(&self, seed: u64) -> Vec<u8> {
        let mut random = SplitMix64(seed.wrapping_add(hash(&self.name)));
        let count: usize = self.shape.iter().product();
        match self.draw {
            Draw::Bytes { bytes: [low, values] } => {
                (0..count).map(|_| u8::try_from(low + u16::from(random.byte()) % values).unwrap()).collect()
            }
            Draw::Numbers { offset, gain, shift } => {
                let steps = (128 >> shift) as f32;
                let numbers =
                    (0..count).map(|_| offset + gain * f32::from(random.byte() as i8 >> shift) / steps);
                match self.dtype {
                    Dtype::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
                    Dtype::F16 => {
                        numbers.flat_map(|x| exactly(x, half::f16::from_f32(x)).to_le_bytes()).collect()
                    }
                    Dtype::BF16 => {
                        numbers.flat_map(|x| exactly(x, half::bf16::from_f32(x)).to_le_bytes()).collect()
                    }
                    other => panic!("{}: no numbers are drawn in {other:?}", self.name),
                }
            }
        }
    }
}

fn exactly<T: Copy + Into<f32>>(number: f32, stored: T) -> T {
    assert_eq!(stored.into(), number, "a number that this type does not hold");
    stored
}

/// The fixture's folder in the repository: its config and reference.
pub fn described(name: &str) -> PathBuf {
    assets::fixtures("shapes").join(name)
}

/// A tensor of a fixture.
pub struct DrawnTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

/// The fixture's tensors.
pub fn drawn_tensors(name: &str) -> Vec<DrawnTensor> {
    let text = read(name, "tensors.json");
    let Recipe { seed, tensors } =
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let draw = |tensor: Tensor| {
        let data = tensor.data(seed);
        DrawnTensor { name: tensor.name, dtype: tensor.dtype, shape: tensor.shape, data }
    };
    tensors.into_iter().map(draw).collect()
}

fn read(name: &str, file: &str) -> Vec<u8> {
    std::fs::read(described(name).join(file)).unwrap_or_else(|error| panic!("{name}/{file}: {error}"))
}

/// A folder with the fixture's config and its weights, drawn once a build folder.
pub fn drawn_fixture(name: &str) -> PathBuf {
    let (config, text) = (read(name, "config.json"), read(name, "tensors.json"));
    // Another description makes another folder, so that none is ever out of date.
    let digest =
        hash(&String::from_utf8_lossy(&text)) ^ hash(&String::from_utf8_lossy(&config)).rotate_left(1);
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = root.join(format!("{name}-{digest:016x}"));
    if folder.exists() {
        return folder;
    }
    let drawn = drawn_tensors(name);
    let views = drawn.iter().map(|tensor| {
        (&tensor.name, TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.data).unwrap())
    });
    // Tests draw side by side: whoever is first puts the whole folder in its place.
    let made = tempfile::tempdir_in(root).unwrap();
    std::fs::write(made.path().join("config.json"), config).unwrap();
    safetensors::serialize_to_file(views, None, &made.path().join("model.safetensors")).unwrap();
    if let Err(error) = std::fs::rename(made.path(), &folder) {
        assert!(folder.exists(), "{}: {error}", folder.display());
    }
    folder
}

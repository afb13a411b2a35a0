//! Writers of small files for the tests, malformed ones included.
#![allow(clippy::unwrap_used)]
use std::path::{Path, PathBuf};

use super::WeightDtype;

/// A metadata value; arrays may claim another element type than they hold.
#[derive(Clone)]
pub(super) enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(u8),
    Text(Vec<u8>),
    Array(u32, Vec<Value>),
}

pub(super) fn text(value: &str) -> Value {
    Value::Text(value.into())
}

impl Value {
    pub(super) fn type_id(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::Text(_) => 8,
            Self::Array(..) => 9,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(v) => out.push(*v),
            Self::I8(v) => out.extend(v.to_le_bytes()),
            Self::U16(v) => out.extend(v.to_le_bytes()),
            Self::U32(v) => out.extend(v.to_le_bytes()),
            Self::I32(v) => out.extend(v.to_le_bytes()),
            Self::U64(v) => out.extend(v.to_le_bytes()),
            Self::I64(v) => out.extend(v.to_le_bytes()),
            Self::F32(v) => out.extend(v.to_le_bytes()),
            Self::F64(v) => out.extend(v.to_le_bytes()),
            Self::Bool(v) => out.push(*v),
            Self::Text(v) => write_text(v, out),
            Self::Array(element, values) => {
                out.extend(element.to_le_bytes());
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| value.write(out));
            }
        }
    }
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}

pub(super) struct GgufTensor {
    pub(super) name: Vec<u8>,
    /// ggml's order, contiguous dimension first.
    pub(super) dims: Vec<u64>,
    pub(super) type_id: u32,
    pub(super) offset: u64,
}

/// Builds a GGUF file. All fields may be set to what no writer would write.
pub(super) struct GgufWriter {
    pub(super) magic: [u8; 4],
    pub(super) version: u32,
    pub(super) keys: Vec<(Vec<u8>, Value)>,
    pub(super) tensors: Vec<GgufTensor>,
    pub(super) data: Vec<u8>,
    pub(super) alignment: usize,
    pub(super) tensor_count: Option<u64>,
    pub(super) key_count: Option<u64>,
}

impl GgufWriter {
    pub(super) fn new(architecture: &str) -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            keys: vec![(b"general.architecture".into(), text(architecture))],
            tensors: Vec::new(),
            data: Vec::new(),
            alignment: 32,
            tensor_count: None,
            key_count: None,
        }
    }

    pub(super) fn key(mut self, name: &str, value: Value) -> Self {
        self.keys.push((name.into(), value));
        self
    }

    /// Adds a tensor behind the others.
    pub(super) fn tensor(mut self, name: &str, dims: &[u64], type_id: u32, data: &[u8]) -> Self {
        self.tensors.push(GgufTensor {
            name: name.into(),
            dims: dims.into(),
            type_id,
            offset: self.data.len() as u64,
        });
        self.data.extend(data);
        let padded = self.data.len().next_multiple_of(self.alignment);
        self.data.resize(padded, 0);
        self
    }

    pub(super) fn change_last(mut self, change: impl FnOnce(&mut GgufTensor)) -> Self {
        change(self.tensors.last_mut().unwrap());
        self
    }

    pub(super) fn finish(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for (name, value) in &self.keys {
            write_text(name, &mut out);
            out.extend(value.type_id().to_le_bytes());
            value.write(&mut out);
        }
        for tensor in &self.tensors {
            write_text(&tensor.name, &mut out);
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(tensor.offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(&self.data);
        out
    }
}

/// Dtypes with their ids in GGUF, written down a second time on purpose.
pub(super) const GGML_IDS: [(WeightDtype, u32); 11] = [
    (WeightDtype::F32, 0),
    (WeightDtype::F16, 1),
    (WeightDtype::Q4_0, 2),
    (WeightDtype::Q4_1, 3),
    (WeightDtype::Q5_0, 6),
    (WeightDtype::Q8_0, 8),
    (WeightDtype::Q4K, 12),
    (WeightDtype::Q5K, 13),
    (WeightDtype::Q6K, 14),
    (WeightDtype::Mxfp4, 39),
    (WeightDtype::Bf16, 30),
];

/// A valid file with every kind of value and every dtype.
pub(super) fn rich_gguf() -> GgufWriter {
    let mut writer = GgufWriter::new("qwen3")
        .key("a.u8", Value::U8(7))
        .key("a.i8", Value::I8(-7))
        .key("a.u16", Value::U16(700))
        .key("a.i32", Value::I32(-70_000))
        .key("a.u64", Value::U64(u64::MAX))
        .key("a.i64", Value::I64(5))
        .key("a.f32", Value::F32(0.5))
        .key("a.f64", Value::F64(0.25))
        .key("a.bool", Value::Bool(1))
        .key("a.strings", Value::Array(8, vec![text("x"), text(""), text("yé")]))
        .key("a.floats", Value::Array(6, vec![Value::F32(1.0), Value::F32(-2.0)]))
        .key("a.ints", Value::Array(5, vec![Value::I32(3), Value::I32(-4)]))
        .key("a.bools", Value::Array(7, vec![Value::Bool(0), Value::Bool(1)]))
        .key("a.nested", Value::Array(9, vec![Value::Array(4, vec![Value::U32(1)])]));
    for (dtype, id) in GGML_IDS {
        let bytes = 2 * 256 / dtype.block_elements() * dtype.block_bytes();
        let data: Vec<u8> = (0..bytes).map(|i| (i * 7 + id as usize) as u8).collect();
        writer = writer.tensor(&format!("t.{}", dtype.name()), &[256, 2], id, &data);
    }
    writer
}

/// A safetensors file of this header and data.
pub(super) fn safetensors_file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

/// A safetensors file of bf16 tensors, written by the safetensors crate.
pub(super) fn bf16_safetensors(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let data: Vec<Vec<u8>> = tensors
        .iter()
        .enumerate()
        .map(|(i, (_, shape))| vec![i as u8 + 1; 2 * shape.iter().product::<usize>()])
        .collect();
    let views = tensors.iter().zip(&data).map(|((name, shape), data)| {
        let dtype = safetensors::Dtype::BF16;
        let view = safetensors::tensor::TensorView::new(dtype, shape.to_vec(), data).unwrap();
        (*name, view)
    });
    safetensors::serialize(views, None).unwrap()
}

/// A folder for one test's files.
pub(super) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

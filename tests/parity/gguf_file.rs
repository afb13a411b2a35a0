//! [`GgufFile`]: a GGUF file written by hand.

/// The type of a tensor's elements, as GGUF numbers it.
#[derive(Debug, Clone, Copy)]
pub enum TensorType {
    F32 = 0,
    F16 = 1,
}

/// What a key holds.
pub enum GgufValue<'a> {
    U32(u32),
    F32(f32),
    Text(&'a str),
    I32s(&'a [i32]),
    F32s(&'a [f32]),
    Texts(&'a [String]),
}

impl GgufValue<'_> {
    fn type_id(&self) -> u32 {
        match self {
            Self::U32(_) => 4,
            Self::F32(_) => 6,
            Self::Text(_) => 8,
            Self::I32s(_) | Self::F32s(_) | Self::Texts(_) => 9,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::U32(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            Self::Text(value) => text(value),
            Self::I32s(values) => array(5, values.iter().map(|value| value.to_le_bytes())),
            Self::F32s(values) => array(6, values.iter().map(|value| value.to_le_bytes())),
            Self::Texts(values) => array(8, values.iter().map(|value| text(value))),
        }
    }
}

fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

fn array(type_id: u32, values: impl ExactSizeIterator<Item: AsRef<[u8]>>) -> Vec<u8> {
    let mut bytes = [&type_id.to_le_bytes()[..], &(values.len() as u64).to_le_bytes()].concat();
    values.for_each(|value| bytes.extend(value.as_ref()));
    bytes
}

/// Keys and tensors, in the order in which they were added.
#[derive(Default)]
pub struct GgufFile {
    keys: Vec<u8>,
    num_keys: u64,
    infos: Vec<u8>,
    num_tensors: u64,
    data: Vec<u8>,
}

impl GgufFile {
    pub fn key(&mut self, name: &str, value: &GgufValue<'_>) {
        self.num_keys += 1;
        self.keys.extend([text(name), value.type_id().to_le_bytes().to_vec(), value.bytes()].concat());
    }

    /// A vocabulary of `<unk>`, `<s>`, `</s>`, all bytes, and `pieces`, for SentencePiece.
    pub fn vocabulary(&mut self, pieces: &[&str]) {
        let control = ["<unk>", "<s>", "</s>"].map(str::to_owned);
        let bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
        let pieces: Vec<String> = pieces.iter().map(|&piece| piece.to_owned()).collect();
        let types = [vec![2, 3, 3], vec![6; 256], vec![1; pieces.len()]].concat();
        let tokens: Vec<String> = control.into_iter().chain(bytes).chain(pieces).collect();
        let scores: Vec<f32> = (0..tokens.len()).map(|id| -(id as f32)).collect();
        self.key("tokenizer.ggml.model", &GgufValue::Text("llama"));
        self.key("tokenizer.ggml.bos_token_id", &GgufValue::U32(1));
        self.key("tokenizer.ggml.eos_token_id", &GgufValue::U32(2));
        self.key("tokenizer.ggml.tokens", &GgufValue::Texts(&tokens));
        self.key("tokenizer.ggml.scores", &GgufValue::F32s(&scores));
        self.key("tokenizer.ggml.token_type", &GgufValue::I32s(&types));
    }

    /// A tensor; dimensions in ggml's order, the contiguous one first.
    pub fn tensor(&mut self, name: &str, dims: &[u64], element: TensorType, data: &[u8]) {
        self.num_tensors += 1;
        let dims_bytes: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        let offset = (self.data.len() as u64).to_le_bytes();
        self.infos.extend([&text(name), &(dims.len() as u32).to_le_bytes()[..], &dims_bytes].concat());
        self.infos.extend([&(element as u32).to_le_bytes()[..], &offset].concat());
        self.data.extend(data);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
    }

    pub fn into_bytes(self) -> Vec<u8> {
        let counts = [self.num_tensors.to_le_bytes(), self.num_keys.to_le_bytes()].concat();
        let mut out = [b"GGUF", &3_u32.to_le_bytes()[..], &counts, &self.keys, &self.infos].concat();
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(self.data);
        out
    }
}

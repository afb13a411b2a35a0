//! What can be wrong with files of weights.
use std::path::PathBuf;

/// What can be wrong with files of weights. Every message names the file, and where they exist the field and the numbers.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", file.display())]
    Io {
        /// File or folder.
        file: PathBuf,
        /// What was tried: `open`, `map`, `read`.
        action: &'static str,
        /// Its reason.
        source: std::io::Error,
    },
    /// A socket, a pipe, a device.
    #[error("{}: is not a regular file", file.display())]
    NotAFile {
        /// The path.
        file: PathBuf,
    },
    /// Neither format.
    #[error("{}: is neither a GGUF file (it does not begin with \"GGUF\") nor named .safetensors", file.display())]
    UnknownFormat {
        /// The path.
        file: PathBuf,
    },
    /// A folder without weights.
    #[error("{}: holds neither model.safetensors nor model.safetensors.index.json ({gguf_files} GGUF files: name one of them instead of the folder)", folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
        /// GGUF files in it.
        gguf_files: usize,
    },
    /// A JSON file larger than any of its kind.
    #[error("{}: has {length} bytes, more than the {limit} bytes such a file may have", file.display())]
    FileTooLarge {
        /// The file.
        file: PathBuf,
        /// Its bytes.
        length: u64,
        /// The most we read.
        limit: u64,
    },
    /// JSON that does not parse, or has another shape than the format says.
    #[error("{}: {what}: {message}", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Which part: `config`, `header`, `index`.
        what: &'static str,
        /// The parser's words, with line and column.
        message: String,
    },

    /// Does not begin with `GGUF`.
    #[error("{}: magic is {found:?}, expected \"GGUF\"", file.display())]
    Magic {
        /// The file.
        file: PathBuf,
        /// Its first four bytes.
        found: [u8; 4],
    },
    /// A GGUF version we do not read.
    #[error("{}: GGUF version {found}, supported are 2 and 3 in little-endian order", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// As read in little-endian order; a big-endian file shows a multiple of 2^24.
        found: u32,
    },
    /// A format that float weights cannot be quantised to.
    #[error("{found:?} is no format to quantise to; the formats are {known}")]
    UnknownQuantization {
        /// What was asked for.
        found: String,
        /// The names there are.
        known: String,
    },
    /// A part of a GGUF split over several files.
    #[error("{}: is one of {count} parts of a split GGUF; merge them first (llama-gguf-split --merge)", file.display())]
    SplitGguf {
        /// The file.
        file: PathBuf,
        /// Parts.
        count: u64,
    },
    /// The file ends inside a field.
    #[error("{}: {field} at byte {offset} needs {needed} bytes, {available} are left", file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// The field.
        field: String,
        /// Where it begins.
        offset: u64,
        /// Its bytes.
        needed: u64,
        /// Bytes left.
        available: u64,
    },
    /// A count whose items cannot fit into the rest of the file.
    #[error("{}: {field} is {count}, the rest of the file has room for at most {limit}", file.display())]
    Count {
        /// The file.
        file: PathBuf,
        /// The count's field.
        field: String,
        /// Claimed.
        count: u64,
        /// The most that fit.
        limit: u64,
    },
    /// A name longer than any.
    #[error("{}: {field} has {length} bytes, more than the {limit} a name may have", file.display())]
    NameLength {
        /// The file.
        file: PathBuf,
        /// The name's field.
        field: String,
        /// Claimed bytes.
        length: u64,
        /// The most allowed.
        limit: u64,
    },
    /// A string that is not UTF-8.
    #[error("{}: {field} at byte {offset} is not UTF-8", file.display())]
    Utf8 {
        /// The file.
        file: PathBuf,
        /// The field.
        field: String,
        /// Where the string begins.
        offset: u64,
    },
    /// A name that occurs twice.
    #[error("{}: {kind} {name:?} occurs twice", file.display())]
    Duplicate {
        /// The file.
        file: PathBuf,
        /// `metadata key`, `tensor`, `index entry`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A metadata type id the format does not define.
    #[error("{}: {field} has value type {found}, defined are 0 to 12", file.display())]
    ValueType {
        /// The file.
        file: PathBuf,
        /// The key.
        field: String,
        /// The id.
        found: u32,
    },
    /// Arrays in arrays in arrays.
    #[error("{}: {field} nests arrays deeper than {limit}", file.display())]
    Nesting {
        /// The file.
        file: PathBuf,
        /// The key.
        field: String,
        /// Levels allowed.
        limit: usize,
    },
    /// A bool that is neither 0 nor 1.
    #[error("{}: {field} is a bool with value {found}", file.display())]
    BoolValue {
        /// The file.
        file: PathBuf,
        /// The key.
        field: String,
        /// The byte.
        found: u8,
    },
    /// `general.alignment` is no power of two.
    #[error("{}: general.alignment is {found}, it must be a power of two", file.display())]
    Alignment {
        /// The file.
        file: PathBuf,
        /// The value.
        found: u64,
    },
    /// More or fewer dimensions than the format allows.
    #[error("{}: tensor {tensor:?} has {found} dimensions, allowed are {least} to {most}", file.display())]
    Dimensions {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its dimensions.
        found: u64,
        /// Fewest.
        least: u64,
        /// Most.
        most: u64,
    },
    /// A ggml type id that ggml does not define (or no longer).
    #[error("{}: tensor {tensor:?} has ggml type {id}, which is not known", file.display())]
    GgmlType {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The id.
        id: u32,
    },
    /// The size of a tensor overflows.
    #[error("{}: tensor {tensor:?} of {dtype} with shape {shape:?} is larger than memory can address", file.display())]
    TensorSize {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its dtype.
        dtype: String,
        /// Row-major shape.
        shape: Vec<u64>,
    },
    /// Rows that do not consist of whole blocks.
    #[error("{}: tensor {tensor:?} of {dtype} has rows of {row} elements, not a multiple of its block of {block}", file.display())]
    PartialBlock {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its dtype.
        dtype: String,
        /// Elements a row.
        row: u64,
        /// Elements a block.
        block: u64,
    },
    /// A tensor's offset is not a multiple of the file's alignment.
    #[error("{}: tensor {tensor:?} has offset {offset}, not a multiple of the alignment {alignment}", file.display())]
    Misaligned {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// From the start of the data.
        offset: u64,
        /// The alignment.
        alignment: u64,
    },
    /// A tensor's bytes end after the file does.
    #[error("{}: tensor {tensor:?} takes {length} bytes from byte {offset} of the data, which has {available}", file.display())]
    PastEnd {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// From the start of the data.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// Bytes of data in the file.
        available: u64,
    },
    /// Two tensors share bytes. Numbers count from the start of the file for GGUF, of the data for safetensors.
    #[error("{}: tensor {second:?} begins at byte {begin}, before tensor {first:?} ends at byte {end}", file.display())]
    Overlap {
        /// The file.
        file: PathBuf,
        /// The one that begins first.
        first: String,
        /// The other.
        second: String,
        /// Where the second begins.
        begin: u64,
        /// Where the first ends.
        end: u64,
    },

    /// A header length no safetensors file has.
    #[error("{}: header length is {length}, at most {limit} are possible here", file.display())]
    HeaderLength {
        /// The file.
        file: PathBuf,
        /// Claimed.
        length: u64,
        /// The lesser of the format's limit and the rest of the file.
        limit: u64,
    },
    /// Offsets that run backwards.
    #[error("{}: tensor {tensor:?} has data_offsets [{begin}, {end}], which end before they begin", file.display())]
    ReversedOffsets {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// First offset.
        begin: u64,
        /// Second offset.
        end: u64,
    },
    /// Offsets that contradict dtype and shape.
    #[error("{}: tensor {tensor:?} has data_offsets [{begin}, {end}], its dtype and shape take {expected} bytes", file.display())]
    DataOffsets {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// First offset.
        begin: u64,
        /// Second offset.
        end: u64,
        /// Bytes of dtype and shape.
        expected: u64,
    },
    /// Bytes of data that belong to no tensor.
    #[error("{}: bytes {begin} to {end} of the data belong to no tensor", file.display())]
    Gap {
        /// The file.
        file: PathBuf,
        /// First such byte, from the start of the data.
        begin: u64,
        /// The byte after the last.
        end: u64,
    },
    /// The index names something that is no plain file name.
    #[error("{}: {tensor:?} is mapped to {shard:?}, which is not the name of a file in this folder", file.display())]
    ShardName {
        /// The index.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// What stands there.
        shard: String,
    },
    /// The index names a file that is not there.
    #[error("{}: names the shard {shard:?}, which is missing", file.display())]
    MissingShard {
        /// The index.
        file: PathBuf,
        /// The file's name.
        shard: String,
    },
    /// The index says a tensor is in a shard, which does not have it.
    #[error("{}: says that {tensor:?} is in {shard:?}, which does not hold it", file.display())]
    NotInShard {
        /// The index.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shard.
        shard: String,
    },
    /// A shard has a tensor that the index does not map to it.
    #[error("{}: does not map {tensor:?} to {shard:?}, which holds it", file.display())]
    NotInIndex {
        /// The index.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shard.
        shard: String,
    },

    /// Two names on disk mean one tensor of the model.
    #[error("{}: {first:?} and {second:?} are both {canonical:?}", file.display())]
    NameClash {
        /// The file of the second.
        file: PathBuf,
        /// First name on disk.
        first: String,
        /// Second name on disk.
        second: String,
        /// What both mean.
        canonical: String,
    },
    /// A metadata key that has to be there.
    #[error("{}: metadata key {key:?} is missing", file.display())]
    MissingKey {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
    },
    /// A metadata key holds something else.
    #[error("{}: metadata key {key:?} is {found}, expected {expected}", file.display())]
    KeyType {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What is there.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// A dtype our kernels do not read.
    #[error("{}: tensor {tensor:?} is stored as {dtype}, which is not supported (supported: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q8_0, MXFP4, Q4_K, Q5_K, Q6_K)", file.display())]
    UnsupportedDtype {
        /// The file.
        file: PathBuf,
        /// The name on disk.
        tensor: String,
        /// The format's name of the dtype.
        dtype: String,
    },
    /// A tensor of another dtype than its place in the model asks for.
    #[error("{}: tensor {tensor:?} is stored as {found}, expected {expected}", file.display())]
    Dtype {
        /// The file.
        file: PathBuf,
        /// The name on disk.
        tensor: String,
        /// Its dtype.
        found: String,
        /// What the model expects.
        expected: &'static str,
    },
    /// A tensor the model needs.
    #[error("{}: tensor {tensor:?} is missing", file.display())]
    MissingTensor {
        /// What was opened.
        file: PathBuf,
        /// The canonical name.
        tensor: String,
    },
    /// A tensor of another shape than the configuration implies.
    #[error("{}: tensor {tensor:?} has shape {found:?}, expected {expected:?}", file.display())]
    Shape {
        /// The file.
        file: PathBuf,
        /// The name on disk.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// What the model expects.
        expected: Vec<usize>,
    },
}

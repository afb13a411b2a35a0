//! Which tile attends to which keys: worked out on the host once a step, and copied over as one list of words.
use crate::{Dtype, KernelError, ffi};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Keys whose partial result is merged as one; `SPAN` in `include/attention/tile.cuh`.
const SPAN: u32 = 256;
/// `LONGWICK_NO_PARTIAL`.
const NO_PARTIAL: u32 = u32::MAX;
/// Words of a `LongwickAttentionItem`.
const ITEM_WORDS: usize = 8;
/// Words of a `LongwickMergeItem`.
const MERGE_WORDS: usize = 4;

/// Thread blocks that give each multiprocessor of a large card one. Where walking tiles make fewer, a long context is split.
const BUSY_BLOCKS: usize = 128;
/// Spans that a tile walks over without being split.
const WALKED_SPANS: u32 = 8;
/// Floats of partial results that splitting a prefill may take.
const MAX_SPLIT_FLOATS: usize = 64 << 20;

/// What the attention of one layer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Of queries and outputs: `dtype`, or f32. Then queries are rounded to `dtype` as they are read, and outputs are not rounded.
    pub query_dtype: Dtype,
    /// Of the products' operands: f32, or on tensor cores bf16 or f16.
    pub dtype: Dtype,
    /// Of cached keys and values: `dtype`, or fp8.
    pub cache_dtype: Dtype,
    /// Query heads: a multiple of the kv heads.
    pub q_heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements a head.
    pub head_dim: usize,
    /// Tokens a block.
    pub block_size: usize,
    /// A token at position p sees keys at positions > p - window; `None` means all.
    pub window: Option<u32>,
}

/// One sequence's share of a step.
#[derive(Debug, Clone, Copy)]
pub struct AttentionSequence<'a> {
    /// Block of each `block_size` positions, in order.
    pub blocks: &'a [u32],
    /// Absolute position of the first block's first token (above 0 once a window released blocks).
    pub first_position: u32,
    /// Absolute position of each query token.
    pub positions: &'a [u32],
}

/// Some of the plan's items: the word where they begin, and how many they are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Section {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// Which tile attends to which keys.
///
/// Sequences with many query rows take wide tiles that walk over all their keys. The others (decode, and a few tokens behind a long
/// context) are split by spans of 256 keys, whose partial results are merged in ascending order; where the block tables of several
/// sequences name the same blocks for a span, the span is read once for all of them. How the work is cut never shows in a result.
pub struct AttentionPlan {
    shape: AttentionShape,
    words: Vec<u32>,
    wide: Section,
    narrow: Section,
    merges: Section,
    positions_word: u32,
    num_tokens: usize,
    partial_rows: usize,
    blocks_end: usize,
}

impl AttentionPlan {
    /// Plans one step. Query tokens are numbered through the sequences, in order.
    ///
    /// # Errors
    /// [`KernelError::Unsupported`] when no kernel was built for the shape; [`KernelError::Value`] when heads do not divide, a token
    /// lies past its blocks, or a window reaches before them.
    pub fn new(shape: AttentionShape, sequences: &[AttentionSequence<'_>]) -> Result<Self, KernelError> {
        let mut builder = Builder::new(shape, sequences)?;
        let mut first_token = 0;
        for (index, sequence) in sequences.iter().enumerate() {
            check_sequence(&shape, index, sequence)?;
            let tokens = first_token..first_token + sequence.positions.len();
            if builder.is_split(tokens.clone()) {
                builder.split(index, tokens.clone());
            } else {
                builder.walk(index, tokens.clone());
            }
            first_token = tokens.end;
        }
        builder.place_splits();
        builder.finish()
    }

    /// What the kernels read.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Floats of workspace that a launch needs.
    pub fn workspace_len(&self) -> usize {
        self.partial_sums_len() + 2 * self.partial_rows * self.shape.kv_heads
    }

    /// Query tokens.
    pub fn num_tokens(&self) -> usize {
        self.num_tokens
    }

    /// Of which layers.
    pub fn shape(&self) -> AttentionShape {
        self.shape
    }

    /// Floats of partial sums; their stats follow.
    pub(crate) fn partial_sums_len(&self) -> usize {
        self.partial_rows * self.shape.kv_heads * self.shape.head_dim
    }

    /// One past the greatest block.
    pub(crate) fn blocks_end(&self) -> usize {
        self.blocks_end
    }

    pub(crate) fn wide(&self) -> Section {
        self.wide
    }

    pub(crate) fn narrow(&self) -> Section {
        self.narrow
    }

    pub(crate) fn merges(&self) -> Section {
        self.merges
    }

    pub(crate) fn positions_word(&self) -> u32 {
        self.positions_word
    }
}

fn check_sequence(
    shape: &AttentionShape,
    index: usize,
    sequence: &AttentionSequence<'_>,
) -> Result<(), KernelError> {
    let refuse = |argument, expected: String, found: u64| {
        Err(KernelError::value(argument, format!("{expected} in sequence {index}"), found))
    };
    let (start, block_size) = (u64::from(sequence.first_position), shape.block_size as u64);
    if !start.is_multiple_of(block_size) {
        return refuse("first_position", format!("a multiple of the block size {block_size}"), start);
    }
    let end = (start + sequence.blocks.len() as u64 * block_size).min(1 << 31);
    for &position in sequence.positions {
        if u64::from(position) >= end {
            return refuse("positions", format!("below {end}, where the blocks end"), position.into());
        }
        let first_visible = u64::from(first_visible(shape, position));
        if first_visible < start {
            return refuse("first_position", format!("at most {first_visible}, which a token sees"), start);
        }
    }
    Ok(())
}

fn first_visible(shape: &AttentionShape, position: u32) -> u32 {
    shape.window.map_or(0, |window| (position + 1).saturating_sub(window))
}

/// An item whose table and token list are not placed in the words yet.
struct Item {
    sequence: usize,
    tokens: TokenList,
    first_row: usize,
    num_rows: usize,
    keys: Range<u32>,
    partial: u32,
}

enum TokenList {
    /// Consecutive tokens, from this one on.
    From(usize),
    /// These.
    Listed(Vec<usize>),
}

/// The tokens that read one span of the same blocks.
struct SharedSpan {
    sequence: usize,
    span: u32,
    tokens: Vec<usize>,
}

/// A span, its first block's number, and the blocks.
type SpanBlocks<'a> = (u32, usize, &'a [u32]);

struct Builder<'a> {
    shape: AttentionShape,
    sequences: &'a [AttentionSequence<'a>],
    group: usize,
    wide_rows: usize,
    narrow_rows: usize,
    positions: Vec<u32>,
    wide: Vec<Item>,
    narrow: Vec<Item>,
    spans: Vec<SharedSpan>,
    span_of_blocks: FxHashMap<SpanBlocks<'a>, usize>,
    /// Of each token, where it is split: span and partial row.
    parts: Vec<Vec<(u32, u32)>>,
    /// Whether tiles that walk make enough blocks for a card.
    walks_are_many: bool,
    /// Floats that splitting prefills took so far.
    split_floats: usize,
    partial_rows: usize,
}

impl<'a> Builder<'a> {
    fn new(shape: AttentionShape, sequences: &'a [AttentionSequence<'a>]) -> Result<Self, KernelError> {
        if shape.kv_heads == 0 || shape.q_heads == 0 || !shape.q_heads.is_multiple_of(shape.kv_heads) {
            let expected = format!("a multiple of the {} kv heads", shape.kv_heads);
            return Err(KernelError::value("q_heads", expected, shape.q_heads));
        }
        if shape.block_size < 16 || !shape.block_size.is_power_of_two() {
            return Err(KernelError::value("block_size", "a power of two, at least 16", shape.block_size));
        }
        if shape.window == Some(0) {
            return Err(KernelError::value("window", "at least 1", 0));
        }
        let head_dim = ffi::count("head_dim", shape.head_dim)?;
        // SAFETY: takes numbers alone.
        let rows = |is_narrow| unsafe {
            ffi::longwick_attention_rows(shape.dtype.code(), shape.cache_dtype.code(), head_dim, is_narrow)
        };
        let (wide_rows, narrow_rows) = (rows(false) as usize, rows(true) as usize);
        let takes_queries = [shape.dtype, Dtype::F32].contains(&shape.query_dtype);
        if wide_rows == 0 || narrow_rows == 0 || !takes_queries {
            let (queries, dtype, cache) = (shape.query_dtype, shape.dtype, shape.cache_dtype);
            let what =
                format!("{queries} queries, products in {dtype}, a {cache} cache and heads of {head_dim}");
            return Err(KernelError::Unsupported { operation: "paged_attention", what });
        }
        let group = shape.q_heads / shape.kv_heads;
        let positions: Vec<u32> = sequences.iter().flat_map(|sequence| sequence.positions).copied().collect();
        let rows = sequences.iter().map(|sequence| sequence.positions.len() * group);
        let walks: usize = rows.filter(|&rows| rows > narrow_rows).map(|rows| rows.div_ceil(wide_rows)).sum();
        Ok(Self {
            shape,
            sequences,
            group,
            wide_rows,
            narrow_rows,
            parts: vec![Vec::new(); positions.len()],
            positions,
            wide: Vec::new(),
            narrow: Vec::new(),
            spans: Vec::new(),
            span_of_blocks: FxHashMap::default(),
            walks_are_many: walks * shape.kv_heads >= BUSY_BLOCKS,
            split_floats: 0,
            partial_rows: 0,
        })
    }

    /// Whether a sequence's tokens are split by spans: few of them, or not many behind a context so long that the tiles that walk
    /// over it would leave most of a card idle.
    fn is_split(&mut self, tokens: Range<usize>) -> bool {
        let rows = tokens.len() * self.group;
        if rows <= self.narrow_rows {
            return true;
        }
        let keys = self.keys(tokens, 0..u32::MAX);
        let spans = keys.end.div_ceil(SPAN) - keys.start / SPAN;
        if self.walks_are_many || spans <= WALKED_SPANS {
            return false;
        }
        let floats = rows * spans as usize * self.shape.kv_heads * (self.shape.head_dim + 2);
        let fits = self.split_floats + floats <= MAX_SPLIT_FLOATS;
        self.split_floats += if fits { floats } else { 0 };
        fits
    }

    /// What the tokens see within `limits`, from the first to the last key.
    fn keys(&self, tokens: impl Iterator<Item = usize> + Clone, limits: Range<u32>) -> Range<u32> {
        let visible = |token: usize| first_visible(&self.shape, self.positions[token]);
        let first = tokens.clone().map(visible).min().unwrap_or(0);
        let last = tokens.map(|token| self.positions[token]).max().unwrap_or(0);
        first.max(limits.start)..(last + 1).min(limits.end)
    }

    /// Wide tiles that walk over all keys of a sequence.
    fn walk(&mut self, sequence: usize, tokens: Range<usize>) {
        let rows = tokens.len() * self.group;
        for first_row in (0..rows).step_by(self.wide_rows) {
            let num_rows = (rows - first_row).min(self.wide_rows);
            let last = (first_row + num_rows - 1) / self.group;
            let keys = self.keys(tokens.start + first_row / self.group..tokens.start + last + 1, 0..u32::MAX);
            let tokens = TokenList::From(tokens.start);
            self.wide.push(Item { sequence, tokens, first_row, num_rows, keys, partial: NO_PARTIAL });
        }
    }

    /// Notes every span that the tokens see, with those of other sequences that read the same blocks.
    fn split(&mut self, sequence: usize, tokens: Range<usize>) {
        let AttentionSequence { blocks, first_position, .. } = self.sequences[sequence];
        let block_size = self.shape.block_size as u64;
        for token in tokens {
            let keys = self.keys(token..token + 1, 0..u32::MAX);
            for span in keys.start / SPAN..=(keys.end - 1) / SPAN {
                let start = u64::from(span * SPAN).max(first_position.into()) - u64::from(first_position);
                let end = u64::from(span * SPAN) + u64::from(SPAN) - u64::from(first_position);
                let end = (end.div_ceil(block_size) as usize).min(blocks.len());
                let first = (start / block_size) as usize;
                let key =
                    (span, first + (u64::from(first_position) / block_size) as usize, &blocks[first..end]);
                let next = self.spans.len();
                let place = *self.span_of_blocks.entry(key).or_insert(next);
                if place == next {
                    self.spans.push(SharedSpan { sequence, span, tokens: Vec::new() });
                }
                self.spans[place].tokens.push(token);
            }
        }
    }

    /// Gives every noted span its tiles: narrow where the rows fit one, else wide.
    fn place_splits(&mut self) {
        for SharedSpan { sequence, span, tokens } in std::mem::take(&mut self.spans) {
            let mut left = tokens.as_slice();
            while !left.is_empty() {
                let is_narrow = left.len() * self.group <= self.narrow_rows;
                let rows = if is_narrow { self.narrow_rows } else { self.wide_rows };
                let (tile, rest) = left.split_at((rows / self.group).min(left.len()));
                left = rest;
                let partial = self.partial_rows as u32;
                for (i, &token) in tile.iter().enumerate() {
                    self.parts[token].push((span, partial + (i * self.group) as u32));
                }
                let num_rows = tile.len() * self.group;
                self.partial_rows += num_rows;
                let keys = self.keys(tile.iter().copied(), span * SPAN..(span + 1) * SPAN);
                let tokens = TokenList::Listed(tile.to_vec());
                let item = Item { sequence, tokens, first_row: 0, num_rows, keys, partial };
                if is_narrow { self.narrow.push(item) } else { self.wide.push(item) }
            }
        }
    }

    /// Lays everything out: items first, then what they point at.
    fn finish(mut self) -> Result<AttentionPlan, KernelError> {
        // The longest work first, so that no long tile is left for the end.
        self.wide.sort_by_key(|item| std::cmp::Reverse(item.keys.len()));
        let parts = std::mem::take(&mut self.parts).into_iter().enumerate();
        let mut parts: Vec<(usize, Vec<(u32, u32)>)> = parts.filter(|(_, spans)| !spans.is_empty()).collect();
        let narrow_word = self.wide.len() * ITEM_WORDS;
        let merges_word = narrow_word + self.narrow.len() * ITEM_WORDS;
        let mut words = vec![0; merges_word + parts.len() * MERGE_WORDS];

        let positions_word = words.len();
        words.extend(&self.positions);
        let identity_word = words.len();
        words.extend(0..self.positions.len() as u32);
        let tables: Vec<usize> = self
            .sequences
            .iter()
            .map(|sequence| {
                let table = words.len();
                words.extend(sequence.blocks);
                table
            })
            .collect();
        for (place, item) in self.wide.iter().chain(&self.narrow).enumerate() {
            let tokens = match &item.tokens {
                TokenList::From(first) => identity_word + first,
                TokenList::Listed(tokens) => {
                    let word = words.len();
                    words.extend(tokens.iter().map(|&token| token as u32));
                    word
                }
            };
            let first_position = self.sequences[item.sequence].first_position;
            let fields = [
                tables[item.sequence] as u32,
                first_position / self.shape.block_size as u32,
                tokens as u32,
                item.first_row as u32,
                item.num_rows as u32,
                item.keys.start,
                item.keys.end,
                item.partial,
            ];
            words[place * ITEM_WORDS..][..ITEM_WORDS].copy_from_slice(&fields);
        }
        for (place, (token, spans)) in parts.iter_mut().enumerate() {
            spans.sort_unstable();
            let fields = [*token as u32, words.len() as u32, spans.len() as u32, 0];
            words[merges_word + place * MERGE_WORDS..][..MERGE_WORDS].copy_from_slice(&fields);
            words.extend(spans.iter().map(|(_, row)| row));
        }
        ffi::count("the plan's words", words.len())?;
        ffi::count("partial rows", self.partial_rows)?;
        let section = |first: usize, count: usize| Section { first: first as u32, count: count as u32 };
        let blocks = self.sequences.iter().flat_map(|sequence| sequence.blocks);
        Ok(AttentionPlan {
            shape: self.shape,
            wide: section(0, self.wide.len()),
            narrow: section(narrow_word, self.narrow.len()),
            merges: section(merges_word, parts.len()),
            positions_word: positions_word as u32,
            num_tokens: self.positions.len(),
            partial_rows: self.partial_rows,
            blocks_end: blocks.max().map_or(0, |&block| block as usize + 1),
            words,
        })
    }
}

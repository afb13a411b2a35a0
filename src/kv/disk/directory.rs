//! [`KvDirectory`]: prefixes of many sequences in a folder, the least recently used dropped first.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::chain::TokenChain;
use super::files;
use super::load::PrefixLoad;
use super::reader::Reader;
use super::save::PrefixPart;
use super::{KvFileError, KvIdentity};
use crate::kv::{KvCache, SequenceCache};

/// Tokens a segment: sequences that part within one each keep their own copy of it.
const SEGMENT_TOKENS: usize = 512;

/// At least so many tokens lie between two boundaries of one sequence, its end aside: each costs a window of every sliding
/// layer, or a state.
const BOUNDARY_TOKENS: usize = 8192;

/// What a directory did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct DirectoryUse {
    /// Prompt tokens whose keys and values came from files.
    pub restored_tokens: u64,
    /// Files written.
    pub files_written: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Files dropped to stay within the size.
    pub files_dropped: u64,
    /// Files found unusable, and removed.
    pub files_damaged: u64,
}

impl std::iter::Sum for DirectoryUse {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            restored_tokens: a.restored_tokens + b.restored_tokens,
            files_written: a.files_written + b.files_written,
            bytes_written: a.bytes_written + b.bytes_written,
            files_dropped: a.files_dropped + b.files_dropped,
            files_damaged: a.files_damaged + b.files_damaged,
        })
    }
}

/// A folder of cached prefixes.
///
/// The full layers' blocks of a prefix lie in *segments* of 512 tokens, which sequences with a common beginning share. A
/// *boundary* is a place where a sequence may start: its file holds the rest of the full layers' blocks, the window of each
/// sliding layer and the recurrent state. Names are digests of [`KvIdentity`] and the tokens so far.
///
/// Processes may share a folder: a file appears whole, and one that vanishes is as if it had never been there.
pub struct KvDirectory {
    root: PathBuf,
    folder: PathBuf,
    identity: KvIdentity,
    max_bytes: u64,
    known: HashSet<String>,
    is_writable: bool,
    /// Whether it was said that some prompts are too long to be kept.
    has_refused: bool,
    usage: DirectoryUse,
}

/// Files that make a prefix, in the order they are read.
struct Found {
    segments: Vec<String>,
    boundary: Option<String>,
    num_blocks: usize,
}

impl KvDirectory {
    /// Makes the folder `root` where it is missing, for the user alone.
    ///
    /// # Errors
    /// [`KvFileError::Io`].
    pub fn prepare(root: &Path) -> Result<(), KvFileError> {
        files::create_private(root)
    }

    /// Opens the folder `root`, made where it is missing. It is kept below `max_bytes` over all identities.
    ///
    /// # Errors
    /// [`KvFileError::Io`].
    pub fn open(root: &Path, identity: KvIdentity, max_bytes: u64) -> Result<Self, KvFileError> {
        let digest = crate::weights::hex(&identity.digest()[..files::FOLDER_DIGITS / 2]);
        let folder = root.join(digest);
        files::create_private(&folder)?;
        files::remove_stale_parts(&folder);
        // The size may be a smaller one than last time.
        files::shrink(root, max_bytes)?;
        let known = files::names(&folder)?;
        let usage = DirectoryUse::default();
        Ok(Self {
            root: root.to_owned(),
            folder,
            identity,
            max_bytes,
            known,
            is_writable: true,
            has_refused: false,
            usage,
        })
    }

    /// What it did since it was opened.
    pub fn usage(&self) -> DirectoryUse {
        self.usage
    }

    /// Brings the longest prefix of `tokens` that the folder has into the cache, where that is longer than what the cache
    /// has, and there is room for it. Returns by how many tokens the cached prefix has grown.
    pub fn restore(&mut self, cache: &mut KvCache, tokens: &[u32]) -> usize {
        let block_size = cache.plan().block_size;
        let cached = cache.cached_tokens(tokens);
        let Some(found) = self.find(cache, tokens) else { return 0 };
        if found.num_blocks * block_size <= cached || !has_room(cache, found.num_blocks) {
            return 0;
        }
        let mut load = PrefixLoad::new(&self.identity);
        let mut used = Vec::new();
        let segments = tokens.chunks(segment_blocks(block_size) * block_size).map(Some);
        let segments = found.segments.iter().zip(segments);
        for (name, segment) in segments.chain(found.boundary.iter().map(|name| (name, None))) {
            if let Err(error) = self.load_file(cache, &mut load, name, segment) {
                self.forget(name, &error);
                break;
            }
            used.push(name.clone());
        }
        cache.finish_load(load);
        // Those that others build on are the youngest, so that they are dropped last.
        used.iter().rev().for_each(|name| files::touch(&self.folder.join(name)));
        let restored = cache.cached_tokens(tokens).saturating_sub(cached);
        self.usage.restored_tokens += restored as u64;
        restored
    }

    /// Loads one file; a segment of `tokens` that the cache holds already is not read.
    fn load_file(
        &self,
        cache: &mut KvCache,
        load: &mut PrefixLoad,
        name: &str,
        segment: Option<&[u32]>,
    ) -> Result<(), KvFileError> {
        if segment.is_some_and(|tokens| cache.hold_known(load, tokens)) {
            return Ok(());
        }
        let reader = Reader::open(&self.folder.join(name), &self.identity, cache.plan())?;
        cache.load_file(load, reader)
    }

    /// Takes note that a file could not be used. What the system or the pool refuses now may do later.
    fn forget(&mut self, name: &str, error: &KvFileError) {
        let path = self.folder.join(name);
        match error {
            KvFileError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {}
            error if error.is_damage() => match std::fs::remove_file(path) {
                Ok(()) => {
                    tracing::warn!(
                        "KV cache: {error}; the file is removed, and its tokens are computed again"
                    );
                    self.usage.files_damaged += 1;
                }
                Err(refusal) => {
                    tracing::warn!(
                        "KV cache: {error}; it cannot be removed ({refusal}), and its tokens are computed again"
                    );
                }
            },
            error => tracing::warn!("KV cache: {error}; the tokens are computed again"),
        }
        self.known.remove(name);
    }

    fn find(&self, cache: &KvCache, tokens: &[u32]) -> Option<Found> {
        let block_size = cache.plan().block_size;
        let needs_boundary = needs_boundary(cache);
        let mut chain = TokenChain::new(&self.identity);
        let mut segments = Vec::new();
        let mut found = None;
        // The last token is always computed.
        let max_blocks = tokens.len().saturating_sub(1) / block_size;
        for (index, key) in tokens.chunks_exact(block_size).take(max_blocks).enumerate() {
            chain.push(key);
            let (num_blocks, digest) = (index + 1, chain.digest());
            let boundary = Some(boundary_name(&digest)).filter(|name| self.known.contains(name));
            let is_whole = num_blocks.is_multiple_of(segment_blocks(block_size));
            if is_whole {
                let segment = segment_name(&digest);
                if !self.known.contains(&segment) {
                    break;
                }
                segments.push(segment);
            }
            if boundary.is_some() || (is_whole && !needs_boundary) {
                found = Some((segments.len(), boundary, num_blocks));
            }
        }
        let (num_segments, boundary, num_blocks) = found?;
        segments.truncate(num_segments);
        Some(Found { segments, boundary, num_blocks })
    }

    /// Keeps the complete blocks of a sequence whose `tokens` are all computed, as far as the folder does not have them. Other
    /// sequences are likely to part from it after `branch_point` tokens.
    pub fn keep(
        &mut self,
        cache: &KvCache,
        sequence: &SequenceCache,
        tokens: &[u32],
        branch_point: Option<usize>,
    ) {
        if !self.is_writable {
            return;
        }
        if let Err(error) = self.try_to_keep(cache, sequence, tokens, branch_point) {
            tracing::warn!("KV cache: {error}; nothing more is written to it");
            self.is_writable = false;
        }
    }

    fn try_to_keep(
        &mut self,
        cache: &KvCache,
        sequence: &SequenceCache,
        tokens: &[u32],
        branch_point: Option<usize>,
    ) -> Result<(), KvFileError> {
        let segment = segment_blocks(cache.plan().block_size);
        let boundaries = boundaries(cache, sequence, branch_point);
        let Some(&last) = boundaries.last().filter(|&&last| self.could_keep(cache, last)) else {
            return Ok(());
        };
        let files_before = self.usage.files_written;
        let (path, mut chain) = (&sequence.path[..last], TokenChain::new(&self.identity));
        for start in (0..last).step_by(segment) {
            let end = (start + segment).min(last);
            let part = PrefixPart { path, tokens, blocks: start..end, before: chain.digest() };
            let within = boundaries.iter().filter(|&&boundary| boundary > start && boundary <= end);
            self.keep_part(cache, part, within, &mut chain)?;
        }
        if self.usage.files_written > files_before {
            let dropped = files::shrink(&self.root, self.max_bytes)?;
            self.usage.files_dropped += dropped.len() as u64;
            for file in dropped.iter().filter(|file| file.parent() == Some(&self.folder)) {
                self.known.remove(&*file.file_name().unwrap_or_default().to_string_lossy());
            }
        }
        Ok(())
    }

    /// Whether a prefix of so many blocks could stay; says once that some could not.
    fn could_keep(&mut self, cache: &KvCache, num_blocks: usize) -> bool {
        let (needed, most) = (least_bytes(cache, num_blocks), self.max_bytes);
        if needed > most && !std::mem::replace(&mut self.has_refused, true) {
            let length = num_blocks * cache.plan().block_size;
            tracing::warn!(
                "KV cache: a prompt of {length} tokens takes {needed} bytes, more than the {most} the folder may keep; such prompts are not kept"
            );
        }
        needed <= most
    }

    /// Keeps the boundaries within a part of at most a segment, and the segment where the part is a whole one. `chain` has
    /// the tokens before the part, and gets the part's.
    fn keep_part<'b>(
        &mut self,
        cache: &KvCache,
        part: PrefixPart<'_>,
        boundaries: impl Iterator<Item = &'b usize>,
        chain: &mut TokenChain,
    ) -> Result<(), KvFileError> {
        let block_size = cache.plan().block_size;
        let (start, end) = (part.blocks.start, part.blocks.end);
        let is_whole = end == start + segment_blocks(block_size);
        let mut done = start;
        for &boundary in boundaries {
            chain.push(&part.tokens[done * block_size..boundary * block_size]);
            done = boundary;
            let digest = chain.digest();
            let name = boundary_name(&digest);
            let PrefixPart { path, tokens, .. } = part;
            let part = match is_whole && boundary == end {
                // A whole segment needs no boundary where full layers are all there is.
                true if !needs_boundary(cache) => continue,
                true => PrefixPart { path, tokens, blocks: end..end, before: digest },
                false => PrefixPart { path, tokens, blocks: start..boundary, before: part.before.clone() },
            };
            self.write_new(name, |identity, file| cache.save_boundary(&part, identity, file))?;
        }
        if is_whole {
            chain.push(&part.tokens[done * block_size..end * block_size]);
            let name = segment_name(&chain.digest());
            self.write_new(name, |identity, file| cache.save_segment(&part, identity, file))?;
        }
        Ok(())
    }

    /// Writes a file, where it is not there yet.
    fn write_new(
        &mut self,
        name: String,
        write: impl FnOnce(&KvIdentity, &Path) -> Result<u64, KvFileError>,
    ) -> Result<(), KvFileError> {
        let file = self.folder.join(&name);
        if self.known.contains(&name) {
            files::touch(&file);
            return Ok(());
        }
        self.usage.bytes_written += write(&self.identity, &file)?;
        self.usage.files_written += 1;
        self.known.insert(name);
        Ok(())
    }
}

/// Bytes that a prefix of so many blocks takes at least: the full layers' blocks, one window and one state.
fn least_bytes(cache: &KvCache, num_blocks: usize) -> u64 {
    let plan = cache.plan();
    let tokens = num_blocks * plan.block_size;
    let pages = plan.groups.iter().map(|group| {
        let blocks = num_blocks - group.first_visible_block(tokens).min(num_blocks);
        blocks as u64 * group.layout.page_bytes() as u64
    });
    pages.sum::<u64>() + plan.states.map_or(0, |states| states.slot_bytes()) as u64
}

/// Blocks after which a file is kept, ascending: the deepest usable place of each stretch, the deepest before the branch point,
/// and the deepest of all.
fn boundaries(cache: &KvCache, sequence: &SequenceCache, branch_point: Option<usize>) -> Vec<usize> {
    let block_size = cache.plan().block_size;
    let stretch = (BOUNDARY_TOKENS / block_size).max(1);
    // The same prompt again computes its last token anew, so that it starts before that.
    let is_before_last = |&length: &usize| length * block_size < sequence.num_tokens();
    let usable: Vec<usize> = cache.usable_lengths(sequence).filter(is_before_last).collect();
    let last_of_stretch = |index: usize| {
        usable.get(index + 1).is_none_or(|next| next.div_ceil(stretch) > usable[index].div_ceil(stretch))
    };
    let branch =
        branch_point.and_then(|point| usable.iter().rposition(|&length| length * block_size <= point));
    let is_kept = |&index: &usize| last_of_stretch(index) || Some(index) == branch;
    (0..usable.len()).filter(is_kept).map(|index| usable[index]).collect()
}

/// Whether a sequence cannot start after just any block.
fn needs_boundary(cache: &KvCache) -> bool {
    let plan = cache.plan();
    plan.states.is_some() || plan.groups.iter().any(|group| group.window.is_some())
}

/// Whether the pool could hold a prefix of `num_blocks` blocks beside what is referenced now.
fn has_room(cache: &KvCache, num_blocks: usize) -> bool {
    let plan = cache.plan();
    let needed = plan.blocks_held(num_blocks * plan.block_size, 0);
    needed <= cache.available() && (plan.states.is_none() || cache.available_slots() > plan.slots_held())
}

fn segment_blocks(block_size: usize) -> usize {
    (SEGMENT_TOKENS / block_size).max(1)
}

fn segment_name(digest: &str) -> String {
    format!("{}.segment", &digest[..files::FILE_DIGITS])
}

fn boundary_name(digest: &str) -> String {
    format!("{}.boundary", &digest[..files::FILE_DIGITS])
}

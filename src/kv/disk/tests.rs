//! Files without a model: what is saved comes back, and nothing else is taken for it.

use std::fs;
use std::path::{Path, PathBuf};

use super::{KvDirectory, KvFileError, KvIdentity};
use crate::kv::{KvCache, KvPlan, LayerKv, SequenceCache};
use crate::ops::{Backend, KvDtype, RecurrentShape};

const BLOCK: usize = 16;

fn sliding_plan() -> KvPlan {
    let full = LayerKv::Full { kv_heads: 1, head_dim: 16 };
    let sliding = LayerKv::Sliding { window: 40, kv_heads: 1, head_dim: 16 };
    KvPlan::new(&[sliding, sliding, full, sliding, sliding, full], BLOCK, KvDtype::F32).unwrap()
}

fn full_plan() -> KvPlan {
    KvPlan::new(&[LayerKv::Full { kv_heads: 1, head_dim: 8 }; 2], BLOCK, KvDtype::Bf16).unwrap()
}

fn recurrent_plan() -> KvPlan {
    let shape = RecurrentShape {
        key_heads: 1,
        value_heads: 2,
        key_dim: 8,
        value_dim: 8,
        conv_kernel: 4,
        value_heads_in_turn: false,
    };
    let full = LayerKv::Full { kv_heads: 1, head_dim: 8 };
    KvPlan::new(&[LayerKv::Recurrent(shape), full], BLOCK, KvDtype::F32).unwrap()
}

fn plans() -> [KvPlan; 3] {
    [sliding_plan(), full_plan(), recurrent_plan()]
}

fn cache(plan: &KvPlan, blocks: usize) -> KvCache {
    let cache = KvCache::new(&Backend::cpu(None).unwrap(), plan.clone(), blocks, true).unwrap();
    cache.with_slots(24, 128).unwrap()
}

fn identity(plan: &KvPlan) -> KvIdentity {
    KvIdentity::new("aa".repeat(32), "theta 10000".to_owned(), "cpu/test kv=f32 longwick=0".to_owned(), plan)
}

fn tokens(seed: u32, length: usize) -> Vec<u32> {
    let start = seed.wrapping_mul(0x9E37_79B9);
    (0..length as u32).map(|i| start.wrapping_add(i).wrapping_mul(2_654_435_761) >> 12).collect()
}

/// Computes tokens up to `end`: what a page or slot holds is a function of the tokens before it.
fn fill(cache: &mut KvCache, sequence: &mut SequenceCache, tokens: &[u32], end: usize) {
    while sequence.num_tokens() < end {
        let start = sequence.num_tokens();
        let next = (start + 100).min(end);
        cache.prepare_append(sequence, next).unwrap();
        cache.plan_snapshots(sequence, next, [end].into_iter());
        for group in 0..cache.plan().groups.len() {
            for index in start / BLOCK..next.div_ceil(BLOCK) {
                let block = sequence.tables()[group].get(index).unwrap();
                let upto = ((index + 1) * BLOCK).min(next);
                let value = mark(&tokens[..upto], group);
                cache.arena_mut().1.page_mut(block).unwrap().fill(value);
            }
        }
        if let Some(slots) = cache.state_slots(sequence) {
            for (position, slot) in slots.targets {
                let value = mark(&tokens[..position as usize], 100);
                cache.arena_mut().1.slot_mut(slot).unwrap().fill(value);
            }
            cache.arena_mut().1.slot_mut(slots.pending).unwrap().fill(mark(&tokens[..next], 101));
        }
        cache.commit(sequence, tokens, next);
    }
    cache.mark_boundary(sequence, end);
}

fn mark(tokens: &[u32], place: usize) -> u8 {
    let sum = tokens.iter().fold(place as u32, |sum, &token| sum.wrapping_mul(31).wrapping_add(token));
    (sum >> 3) as u8
}

/// Asserts that all that a sequence holds is what [`fill`] wrote for these tokens.
fn check(cache: &mut KvCache, sequence: &SequenceCache, tokens: &[u32]) {
    let length = sequence.num_tokens();
    for group in 0..cache.plan().groups.len() {
        let table = sequence.tables()[group].clone();
        let bytes = cache.plan().groups[group].layout.page_bytes();
        assert_eq!(table.end_block(), length.div_ceil(BLOCK));
        assert!(table.first_block() <= cache.plan().groups[group].first_visible_block(length));
        for (index, &block) in (table.first_block()..).zip(table.blocks()) {
            let expected = mark(&tokens[..((index + 1) * BLOCK).min(length)], group);
            let page = cache.arena_mut().1.page(block).unwrap();
            assert!(page[..bytes].iter().all(|&byte| byte == expected), "group {group}, block {index}");
        }
    }
    if cache.plan().states.is_some() {
        let state = sequence.slots().state().map(|slot| cache.arena_mut().1.slot(slot).unwrap()[0]);
        let at = length / 64 * 64;
        assert_eq!(state, (at > 0).then(|| mark(&tokens[..at], 100)));
    }
}

fn saved(plan: &KvPlan, length: usize, file: &Path) -> (Vec<u32>, u64) {
    let (mut cache, tokens) = (cache(plan, 400), tokens(7, length));
    let mut sequence = cache.attach(&[]);
    fill(&mut cache, &mut sequence, &tokens, length / 2);
    fill(&mut cache, &mut sequence, &tokens, length);
    let bytes = cache.save_sequence(&sequence, &tokens, &identity(plan), file).unwrap();
    cache.free(sequence);
    (tokens, bytes)
}

#[test]
fn a_saved_sequence_comes_back_and_its_boundaries_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.kv");
    for plan in plans() {
        for length in [1, 15, 16, 17, 64, 100, 128, 333, 640] {
            let (tokens, bytes) = saved(&plan, length, &file);
            assert_eq!(fs::metadata(&file).unwrap().len(), bytes);
            let mut cache = cache(&plan, 400);
            let (found, sequence) = cache.load_sequence(&file, &identity(&plan)).unwrap();
            assert_eq!((&found, sequence.num_tokens()), (&tokens, length));
            check(&mut cache, &sequence, &tokens);
            // A branch from the boundary in the middle finds its window, or its snapshot.
            let unit = if plan.states.is_some() { plan.snapshot_unit() } else { BLOCK };
            let middle = [&tokens[..length / 2], &[9_999_999][..]].concat();
            assert_eq!(cache.cached_tokens(&middle), length / 2 / unit * unit, "{length}");
            let branch = cache.attach(&middle);
            check(&mut cache, &branch, &tokens);
            cache.free(branch);
            cache.free(sequence);
            assert_eq!((cache.usage().referenced, cache.slot_usage().referenced), (0, 0));
        }
    }
}

#[test]
fn a_restored_sequence_shares_what_the_cache_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.kv");
    for plan in plans() {
        let (tokens, _) = saved(&plan, 333, &file);
        let mut cache = cache(&plan, 400);
        let (_, first) = cache.load_sequence(&file, &identity(&plan)).unwrap();
        let held = cache.usage().referenced;
        let (_, second) = cache.load_sequence(&file, &identity(&plan)).unwrap();
        // Only the partly filled last block of each group is there twice.
        assert_eq!(cache.usage().referenced, held + plan.groups.len());
        check(&mut cache, &second, &tokens);
        cache.free(first);
        check(&mut cache, &second, &tokens);
        cache.free(second);
        assert_eq!(cache.usage().referenced, 0);
    }
}

#[test]
fn damage_anywhere_is_an_error_and_leaves_the_cache_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.kv");
    for plan in plans() {
        saved(&plan, 140, &file);
        let whole = fs::read(&file).unwrap();
        let mut cache = cache(&plan, 60);
        let mut refuse = |bytes: &[u8], what: &str| {
            fs::write(&file, bytes).unwrap();
            let outcome = cache.load_sequence(&file, &identity(&plan));
            let error = outcome.err().unwrap_or_else(|| panic!("{what} was accepted"));
            assert!(error.to_string().contains("session.kv"), "{error}");
            assert_eq!((cache.usage().free, cache.slot_usage().referenced), (60, 0), "{what}");
        };
        for cut in (0..64).map(|i| i * whole.len() / 64) {
            refuse(&whole[..cut], &format!("a file cut to {cut} bytes"));
        }
        refuse(&[&whole[..], &[0]].concat(), "a longer file");
        for place in (0..whole.len()).step_by(whole.len() / 400 + 1).chain(0..64) {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x10;
            refuse(&bytes, &format!("a changed byte at {place}"));
        }
    }
}

#[test]
fn a_file_of_another_engine_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.kv");
    let plan = sliding_plan();
    saved(&plan, 100, &file);
    let own = identity(&plan);
    let others = [
        ("weight digest", KvIdentity { weights: "bb".repeat(32), ..own.clone() }),
        ("rope setting", KvIdentity { rope: "theta 1000000".to_owned(), ..own.clone() }),
        ("arithmetic", KvIdentity { arithmetic: "cpu/other kv=bf16".to_owned(), ..own.clone() }),
        ("page layout", identity(&full_plan())),
    ];
    for (field, other) in others {
        let error = cache(&plan, 100).load_sequence(&file, &other).err().unwrap();
        assert!(matches!(&error, KvFileError::Identity { field: found, .. } if *found == field), "{error}");
    }
    let wide = KvPlan::new(&[LayerKv::Full { kv_heads: 1, head_dim: 16 }], 32, KvDtype::F32).unwrap();
    let error = cache(&wide, 100).load_sequence(&file, &identity(&wide)).err().unwrap();
    assert!(error.to_string().contains("saved with another block size: 16; this engine has 32"), "{error}");
}

#[test]
fn a_pool_without_room_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.kv");
    let plan = sliding_plan();
    saved(&plan, 640, &file);
    let mut cache = cache(&plan, 40);
    let error = cache.load_sequence(&file, &identity(&plan)).err().unwrap();
    assert!(error.to_string().contains("out of KV blocks"), "{error}");
    assert_eq!(cache.usage().free, 40);
}

fn open(root: &Path, plan: &KvPlan) -> KvDirectory {
    KvDirectory::open(root, identity(plan), u64::MAX).unwrap()
}

/// Computes a prompt with what a directory has of it, keeps it there, and says how many tokens were restored.
fn compute(cache: &mut KvCache, directory: &mut KvDirectory, tokens: &[u32]) -> usize {
    let restored = directory.restore(cache, tokens);
    let mut sequence = cache.attach(tokens);
    check(cache, &sequence, tokens);
    fill(cache, &mut sequence, tokens, tokens.len());
    directory.keep(cache, &sequence, tokens, None);
    check(cache, &sequence, tokens);
    cache.free(sequence);
    restored
}

#[test]
fn a_later_process_finds_whole_prompts_and_common_beginnings() {
    for plan in plans() {
        let root = tempfile::tempdir().unwrap();
        let unit = if plan.states.is_some() { plan.snapshot_unit() } else { BLOCK };
        let history = tokens(1, 5_000);
        let branch = [&history[..4_500], &tokens(2, 300)].concat();
        let short = tokens(3, 200);
        let prompts = [&history, &branch, &short];
        let mut first = cache(&plan, 3_000);
        let mut directory = open(root.path(), &plan);
        for prompt in prompts {
            assert_eq!(compute(&mut first, &mut directory, prompt), 0);
        }
        let written = directory.usage().files_written;
        for prompt in prompts {
            let (mut later, mut directory) = (cache(&plan, 3_000), open(root.path(), &plan));
            let whole = (prompt.len() - 1) / unit * unit;
            assert_eq!(compute(&mut later, &mut directory, prompt), whole);
            assert_eq!(
                (directory.usage().files_written, directory.usage().restored_tokens),
                (0, whole as u64)
            );
        }
        // In one process after another prompt, the shared segments are not read again.
        let (mut later, mut directory) = (cache(&plan, 3_000), open(root.path(), &plan));
        compute(&mut later, &mut directory, &history);
        compute(&mut later, &mut directory, &branch);
        assert!(written >= 5, "two shared segments and three ends, {written} files");
    }
}

#[test]
fn damaged_and_vanished_files_are_computed_again() {
    for plan in plans() {
        let root = tempfile::tempdir().unwrap();
        let history = tokens(1, 4_200);
        compute(&mut cache(&plan, 3_000), &mut open(root.path(), &plan), &history);
        let files = files_in(root.path());
        let mut directory = open(root.path(), &plan);
        for file in &files {
            let mut bytes = fs::read(file).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(file, bytes).unwrap();
        }
        let mut later = cache(&plan, 3_000);
        compute(&mut later, &mut directory, &history);
        assert_eq!(directory.usage().files_damaged, 1, "the first that is read");
        assert_eq!(later.usage().referenced, 0);
        files.iter().for_each(|file| drop(fs::remove_file(file)));
        let mut later = cache(&plan, 3_000);
        assert_eq!(compute(&mut later, &mut directory, &history), 0);
        assert_eq!(directory.usage().files_damaged, 1);
    }
}

#[test]
fn the_least_recently_used_files_are_dropped_and_others_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let plan = full_plan();
    let foreign = ["notes.txt", "mine/parish.boundary", "0123456789abcdef/talk.segment"]
        .map(|name| root.path().join(name));
    for file in &foreign {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "not ours").unwrap();
    }
    let mut directory = open(root.path(), &plan);
    let prompts: Vec<Vec<u32>> = (0..6).map(|seed| tokens(seed, 500)).collect();
    compute(&mut cache(&plan, 900), &mut directory, &prompts[0]);
    let size = directory.usage().bytes_written;
    let mut directory = KvDirectory::open(root.path(), identity(&plan), 3 * size + size / 2).unwrap();
    for prompt in &prompts[1..] {
        compute(&mut cache(&plan, 900), &mut directory, prompt);
        // The first is used again and again, and so outlives those after it.
        assert_eq!(directory.restore(&mut cache(&plan, 900), &prompts[0]), 496);
    }
    assert_eq!(directory.usage().files_dropped, 3);
    assert_eq!(files_in(root.path()).len(), 3 + 2);
    for (prompt, restored) in prompts.iter().zip([496, 0, 0, 0, 496, 496]) {
        assert_eq!(directory.restore(&mut cache(&plan, 900), prompt), restored);
    }
    assert!(foreign.iter().all(|file| file.exists()));
    // A smaller size counts at once.
    drop(KvDirectory::open(root.path(), identity(&plan), size).unwrap());
    assert_eq!(files_in(root.path()).len(), 1 + 2);
}

/// A prompt that could not stay is not written, and costs no other its place.
#[test]
fn a_prompt_larger_than_the_folder_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    let plan = sliding_plan();
    let small = tokens(1, 300);
    let mut directory = open(root.path(), &plan);
    compute(&mut cache(&plan, 3_000), &mut directory, &small);
    let size = directory.usage().bytes_written;
    let mut directory = KvDirectory::open(root.path(), identity(&plan), size).unwrap();
    assert_eq!(compute(&mut cache(&plan, 3_000), &mut directory, &tokens(2, 4_000)), 0);
    assert_eq!((directory.usage().files_written, directory.usage().files_dropped), (0, 0));
    assert_eq!(compute(&mut cache(&plan, 3_000), &mut directory, &small), 288);
}

/// Another question about the same history starts where the history ends.
#[test]
fn a_prompt_that_parts_at_the_branch_point_is_restored_up_to_it() {
    for plan in plans() {
        let root = tempfile::tempdir().unwrap();
        let unit = if plan.states.is_some() { plan.snapshot_unit() } else { BLOCK };
        let history = tokens(1, 1_000);
        let [first, second] = [2, 3].map(|seed| [&history[..], &tokens(seed, 90)].concat());
        let (mut earlier, mut directory) = (cache(&plan, 3_000), open(root.path(), &plan));
        let mut sequence = earlier.attach(&first);
        fill(&mut earlier, &mut sequence, &first, 1_000);
        fill(&mut earlier, &mut sequence, &first, first.len());
        directory.keep(&earlier, &sequence, &first, Some(1_000));
        earlier.free(sequence);
        let restored = compute(&mut cache(&plan, 3_000), &mut open(root.path(), &plan), &second);
        assert_eq!(restored, 1_000 / unit * unit);
    }
}

#[cfg(unix)]
#[test]
fn files_are_for_the_user_alone_and_what_a_dead_process_left_goes() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let plan = full_plan();
    compute(&mut cache(&plan, 900), &mut open(root.path(), &plan), &tokens(1, 300));
    let file = files_in(root.path()).remove(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    // No process has a number this large.
    let part =
        file.with_file_name(format!("{}.4294967295.part", file.file_name().unwrap().to_str().unwrap()));
    let own = part.with_file_name(format!("{}.{}.part", "a".repeat(40) + ".segment", std::process::id()));
    for file in [&part, &own] {
        fs::write(file, "half").unwrap();
    }
    drop(open(root.path(), &plan));
    assert!(!part.exists() || !cfg!(target_os = "linux"));
    assert!(own.exists(), "its process may still write it");
}

#[test]
fn a_folder_that_cannot_be_written_stops_no_one() {
    let root = tempfile::tempdir().unwrap();
    let plan = full_plan();
    let mut directory = open(root.path(), &plan);
    fs::remove_dir_all(root.path()).unwrap();
    assert_eq!(compute(&mut cache(&plan, 900), &mut directory, &tokens(1, 500)), 0);
    assert_eq!(directory.usage().files_written, 0);
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = KvDirectory::open(file.path(), identity(&plan), 1).err().unwrap();
    assert!(error.to_string().contains("cannot create"), "{error}");
}

fn files_in(root: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.collect::<Vec<_>>()
    };
    let folders = list(root).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = folders.flat_map(|folder| list(&folder)).collect();
    files.sort();
    files
}

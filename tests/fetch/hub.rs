//! Downloads from the hub: resuming, checking, refusing, verifying again.
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;

use longwick::weights::fetch::{FetchError, FetchedFrom, FileState, Silent};
use longwick::weights::lock::{Checked, LOCK_FILE, LockOrigin, ModelLock};

use crate::place::{HUB_SOURCE, Notes, Place, assert_holds, names, sharded, single};
use crate::server::{COMMIT, REPO, Server, git_id, is_large, noise, sha256};

#[test]
fn a_model_is_fetched_once_and_locked() {
    let server = Server::start(&single());
    let place = Place::new(&server);
    place.manifest("tiny", HUB_SOURCE);
    let cache = place.cache();
    let absent = cache.resolve("tiny").expect_err("not fetched yet");
    assert!(absent.to_string().ends_with("longwick models fetch tiny"), "{absent}");
    assert_eq!(server.take_requests(), Vec::<String>::new(), "resolving asks no server");

    let fetched = cache.fetch("tiny", &mut Silent).expect("fetches");
    assert_eq!((fetched.from, &fetched.path), (FetchedFrom::Hub, &place.models("tiny")));
    let wanted: Vec<_> =
        single().into_iter().filter(|(p, _)| *p != "README.md" && !p.contains('/')).collect();
    assert_holds(&fetched.path, &wanted);
    assert_eq!(names(&fetched.path), ["config.json", LOCK_FILE, "model.safetensors", "tokenizer.json"]);

    let lock = ModelLock::read(&fetched.path).expect("reads").expect("there");
    assert!(matches!(&lock.origin, LockOrigin::Hub { commit, repo, .. } if commit == COMMIT && repo == REPO));
    for file in &lock.files {
        let content = &wanted.iter().find(|(path, _)| *path == file.path).expect("wanted").1;
        assert_eq!((file.bytes, &file.sha256), (content.len() as u64, &sha256(content)));
        let expected = if is_large(&file.path) { Checked::HubSha256 } else { Checked::HubGitId };
        assert_eq!(file.checked, expected, "{}", file.path);
    }

    server.take_requests();
    let again = cache.fetch("tiny", &mut Silent).expect("is there");
    assert_eq!(again.from, FetchedFrom::AlreadyPresent);
    assert_eq!(cache.resolve("tiny").expect("resolves"), fetched.path);
    assert_eq!(cache.presence("tiny").expect("known").expect("present").keeper, "longwick");
    assert_eq!(server.take_requests(), Vec::<String>::new(), "nothing is asked for what is there");
}

#[test]
fn a_sharded_model_comes_whole_by_its_hub_name() {
    let server = Server::start(&sharded());
    let place = Place::new(&server);
    let cache = place.cache();
    let spec = format!("hf:{REPO}");
    let absent = cache.resolve(&spec).expect_err("not fetched yet").to_string();
    assert!(absent.ends_with("longwick models fetch hf:tests/tiny"), "{absent}");
    let fetched = cache.fetch(&spec, &mut Silent).expect("fetches");
    assert_holds(&fetched.path, &sharded());
    assert_eq!(fetched.files.len(), 5);
    assert_eq!(cache.resolve(&spec).expect("resolves"), fetched.path);
    std::fs::remove_file(fetched.path.join("model-00002-of-00002.safetensors")).expect("remove");
    assert!(matches!(cache.resolve(&spec), Err(FetchError::NotPresent { .. })), "a missing shard is absence");
}

#[test]
fn one_gguf_file_of_several_is_named() {
    let server = Server::start(&[("a.gguf", noise(1000, 4)), ("b.gguf", noise(2000, 5))]);
    let place = Place::new(&server);
    let cache = place.cache();
    let several = cache.fetch("hf:tests/tiny", &mut Silent).expect_err("ambiguous");
    assert!(several.to_string().contains("a.gguf, b.gguf"), "{several}");
    let fetched = cache.fetch("hf:tests/tiny:b.gguf", &mut Silent).expect("fetches");
    assert!(fetched.path.ends_with("b.gguf"));
    assert!(std::fs::read(&fetched.path).expect("file") == noise(2000, 5));
}

#[test]
fn a_broken_download_goes_on_where_it_was() {
    let server = Server::start(&single());
    let place = Place::new(&server);
    server.set(|hub| hub.breaks_left = 1);
    let fetched = place.cache().fetch("hf:tests/tiny", &mut Silent).expect("fetches");
    assert!(std::fs::read(fetched.path.join("model.safetensors")).expect("file") == noise(700_001, 1));
    let requests = server.take_requests();
    assert!(requests.contains(&"GET /storage/model.safetensors from 350000".to_string()), "{requests:?}");
}

#[test]
fn a_later_fetch_goes_on_with_what_an_earlier_one_left() {
    let server = Server::start(&single());
    let place = Place::new(&server);
    let cache = place.cache();
    // Each try gets half of what is left, so that it is the tries without progress that must run out.
    server.set(|hub| hub.breaks_left = usize::MAX);
    let error = cache.fetch("hf:tests/tiny", &mut Silent).expect_err("always broken off");
    let FetchError::Interrupted { partial, received, expected, .. } = &error else { panic!("{error}") };
    assert_eq!((*received, *expected), (700_000, Some(700_001)));
    assert_eq!(std::fs::metadata(partial).expect("kept").len(), 700_000);
    assert!(error.to_string().contains("700000 of 700001"), "{error}");
    assert!(matches!(cache.resolve("hf:tests/tiny"), Err(FetchError::NotPresent { .. })));

    server.set(|hub| hub.breaks_left = 0);
    server.take_requests();
    let fetched = cache.fetch("hf:tests/tiny", &mut Silent).expect("goes on");
    assert!(std::fs::read(fetched.path.join("model.safetensors")).expect("file") == noise(700_001, 1));
    let requests = server.take_requests();
    assert!(requests.contains(&"GET /storage/model.safetensors from 700000".to_string()), "{requests:?}");
    let small: Vec<_> =
        requests.iter().filter(|request| request.contains("resolve") && request.contains("json")).collect();
    assert_eq!(small.len(), 1, "config.json was there: {requests:?}");
    assert!(!partial.exists());
}

#[test]
fn a_server_that_ignores_ranges_is_started_again() {
    let server = Server::start(&single());
    let place = Place::new(&server);
    server.set(|hub| (hub.breaks_left, hub.ignores_ranges) = (1, true));
    let fetched = place.cache().fetch("hf:tests/tiny", &mut Silent).expect("fetches");
    assert!(std::fs::read(fetched.path.join("model.safetensors")).expect("file") == noise(700_001, 1));
}

#[test]
fn wrong_content_shows_both_sums_and_is_kept_aside() {
    for path in ["model.safetensors", "config.json"] {
        let server = Server::start(&single());
        let place = Place::new(&server);
        let right = single().into_iter().find(|(name, _)| *name == path).expect("file").1;
        let mut wrong = right.clone();
        wrong[5] ^= 1;
        server.set(|hub| drop(hub.substitutes.insert(path.to_string(), wrong.clone())));
        let cache = place.cache();
        let error = cache.fetch("hf:tests/tiny", &mut Silent).expect_err("wrong");
        let FetchError::WrongChecksum { expected, actual, kept, path: named, .. } = &error else {
            panic!("{error}")
        };
        let sums =
            if is_large(path) { (sha256(&right), sha256(&wrong)) } else { (git_id(&right), git_id(&wrong)) };
        assert_eq!((expected, actual), (&sums.0, &sums.1));
        assert!(named.ends_with(path) && !named.exists());
        assert!(std::fs::read(kept).expect("kept") == wrong);
        let text = error.to_string();
        assert!(
            text.contains(expected) && text.contains(actual) && text.contains(&kept.display().to_string()),
            "{text}"
        );
        assert!(matches!(cache.resolve("hf:tests/tiny"), Err(FetchError::NotPresent { .. })));
        assert_eq!(ModelLock::read(&place.models("hf--tests--tiny")).expect("reads"), None);
    }
}

#[test]
fn a_pinned_checksum_outranks_the_hubs() {
    let server = Server::start(&single());
    let place = Place::new(&server);
    let pinned = "ab".repeat(32);
    place.manifest(
        "tiny",
        &format!(
            "[[file]]\npath = \"model.safetensors\"\nbytes = 700001\nsha256 = \"{pinned}\"\n{HUB_SOURCE}"
        ),
    );
    let error = place.cache().fetch("tiny", &mut Silent).expect_err("not what the manifest pins");
    assert!(matches!(&error, FetchError::WrongChecksum { expected, .. } if *expected == pinned), "{error}");
}

#[test]
fn more_bytes_than_announced_are_refused() {
    let server = Server::start(&single());
    let place = Place::new(&server);
    server.set(|hub| drop(hub.substitutes.insert("model.safetensors".to_string(), noise(900_000, 1))));
    let error = place.cache().fetch("hf:tests/tiny", &mut Silent).expect_err("too long").to_string();
    assert!(error.contains("more than the 700001 bytes"), "{error}");
}

#[test]
fn refusals_are_told_apart() {
    let server = Server::start(&single());
    let mut place = Place::new(&server);
    let cache = place.cache();
    let absent = cache.fetch("hf:tests/absent", &mut Silent).expect_err("no such repository");
    assert!(
        matches!(&absent, FetchError::RevisionNotFound { repo, .. } | FetchError::RepoNotFound { repo, .. } if repo == "tests/absent"),
        "{absent}"
    );
    let revision = cache.fetch("hf:tests/tiny@v9", &mut Silent).expect_err("no such revision");
    assert!(
        matches!(&revision, FetchError::RevisionNotFound { revision, .. } if revision == "v9"),
        "{revision}"
    );
    let file = cache.fetch("hf:tests/tiny:absent.gguf", &mut Silent).expect_err("no such file");
    assert!(matches!(&file, FetchError::NoSuchFile { pattern, .. } if pattern == "absent.gguf"), "{file}");

    server.set(|hub| hub.refusal = Some((404, "RepoNotFound", "Repository not found")));
    let unknown = cache.fetch("hf:tests/tiny", &mut Silent).expect_err("404");
    assert!(matches!(&unknown, FetchError::RepoNotFound { .. }), "{unknown}");
    server.set(|hub| hub.refusal = Some((401, "RepoNotFound", "Repository not found")));
    let hidden = cache.fetch("hf:tests/tiny", &mut Silent).expect_err("401 for an unknown repository");
    assert!(matches!(&hidden, FetchError::RepoNotFound { .. }), "{hidden}");

    for status in [401, 403] {
        server
            .set(|hub| hub.refusal = Some((status, "GatedRepo", "Access to model tests/tiny is restricted")));
        let gated = cache.fetch("hf:tests/tiny", &mut Silent).expect_err("gated");
        assert!(matches!(&gated, FetchError::Gated { status: s, .. } if *s == status), "{gated}");
        let text = gated.to_string();
        assert!(text.contains("is restricted") && text.contains("HF_TOKEN"), "{text}");
    }
    server.set(|hub| hub.token = Some("hf_secret".to_string()));
    place.settings.token = Some("hf_secret".to_string());
    place.cache().fetch("hf:tests/tiny", &mut Silent).expect("the token opens it");
}

#[test]
fn verify_finds_changed_and_missing_files_and_fetch_repairs_them() {
    let server = Server::start(&single());
    let place = Place::new(&server);
    let cache = place.cache();
    assert!(matches!(cache.verify("hf:tests/tiny", &mut Silent), Err(FetchError::NotPresent { .. })));
    let folder = cache.fetch("hf:tests/tiny", &mut Silent).expect("fetches").path;
    let states = || -> BTreeMap<String, FileState> {
        let checks = cache.verify("hf:tests/tiny", &mut Silent).expect("verifies");
        checks.into_iter().map(|check| (check.path, check.state)).collect()
    };
    assert!(states().values().all(|state| *state == FileState::Right));

    let mut changed = noise(700_001, 1);
    changed[600_000] ^= 0x40;
    std::fs::write(folder.join("model.safetensors"), &changed).expect("write");
    std::fs::remove_file(folder.join("config.json")).expect("remove");
    let found = states();
    assert_eq!(found["config.json"], FileState::Missing);
    assert_eq!(found["tokenizer.json"], FileState::Right);
    let (expected, actual) = (sha256(&noise(700_001, 1)), sha256(&changed));
    assert_eq!(found["model.safetensors"], FileState::Changed { expected, actual: actual.clone() });

    let mut notes = Notes::default();
    cache.fetch("hf:tests/tiny", &mut notes).expect("repairs");
    assert!(states().values().all(|state| *state == FileState::Right));
    let kept = folder.join(format!("model.safetensors.bad-{}", &actual[..12]));
    assert!(std::fs::read(&kept).expect("the changed file is kept") == changed);
    assert!(notes.0.iter().any(|note| note.contains(&actual)), "{:?}", notes.0);
}

#[test]
fn a_touched_file_is_read_again_but_not_downloaded() {
    let server = Server::start(&single());
    let place = Place::new(&server);
    let cache = place.cache();
    let folder = cache.fetch("hf:tests/tiny", &mut Silent).expect("fetches").path;
    std::fs::write(folder.join("tokenizer.json"), b"{}").expect("same content, new time");
    server.take_requests();
    assert_eq!(cache.fetch("hf:tests/tiny", &mut Silent).expect("there").from, FetchedFrom::AlreadyPresent);
    assert_eq!(server.take_requests(), Vec::<String>::new());
}

#[test]
fn a_hub_cannot_write_outside_the_models_folder() {
    let mut files = single();
    files.push(("../../evil.safetensors", noise(10, 7)));
    let server = Server::start(&files);
    let place = Place::new(&server);
    place.manifest("tiny", "[[source]]\nhub = { repo = \"tests/tiny\", files = [\"**/*.safetensors\"] }\n");
    let error = place.cache().fetch("tiny", &mut Silent).expect_err("leads outside");
    assert!(
        matches!(&error, FetchError::UnsafePath { path, .. } if path == "../../evil.safetensors"),
        "{error}"
    );
    assert!(!place.settings.cache_root.join("evil.safetensors").exists());
}

#[test]
fn an_unreachable_hub_is_an_error_with_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let endpoint = format!("http://{}", listener.local_addr().expect("address"));
    drop(listener);
    let server = Server::start(&[]);
    let mut place = Place::new(&server);
    place.settings.endpoint = endpoint.clone();
    let error = place.cache().fetch("hf:tests/tiny", &mut Silent).expect_err("nobody listens");
    assert!(matches!(&error, FetchError::Hub { .. }) && error.to_string().contains(&endpoint), "{error}");

    // Answers that are no hub's.
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    place.settings.endpoint = format!("http://{}", listener.local_addr().expect("address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\n<html>");
        }
    });
    let error = place.cache().fetch("hf:tests/tiny", &mut Silent).expect_err("no hub");
    assert!(matches!(&error, FetchError::Hub { .. }), "{error}");
}

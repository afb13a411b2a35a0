//! A scratch cache with its settings, and the models that the hub on loopback has.
use std::path::{Path, PathBuf};
use std::time::Duration;

use longwick::weights::fetch::{FetchProgress, FetchSettings, ModelCache};
use tempfile::TempDir;

use crate::server::{Server, noise};

/// Keeps notes.
#[derive(Default)]
pub struct Notes(pub Vec<String>);

impl FetchProgress for Notes {
    fn begin(&mut self, _what: &str, _total: Option<u64>, _done: u64) {}
    fn advance(&mut self, _bytes: u64) {}
    fn finish(&mut self) {}
    fn note(&mut self, message: &str) {
        self.0.push(message.to_string());
    }
}

pub struct Place {
    pub folder: TempDir,
    pub settings: FetchSettings,
}

impl Place {
    pub fn new(server: &Server) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let settings = FetchSettings {
            cache_root: folder.path().join("cache"),
            hf_cache: folder.path().join("hf"),
            endpoint: server.endpoint.clone(),
            token: None,
            offline: None,
            hub_offline: None,
            pip: vec![vec!["pip".into()]],
            search_path: Some(folder.path().join("bin").into()),
            attempts: 3,
            retry_delay: Duration::from_millis(1),
        };
        Self { folder, settings }
    }

    pub fn manifest(&self, name: &str, rest: &str) {
        let folder = self.settings.cache_root.join("manifests");
        std::fs::create_dir_all(&folder).expect("folder");
        let text = format!(
            "name = \"{name}\"\nfamily = \"qwen3\"\ncontext_length = 64\nlicence = {{ name = \"MIT\" }}\n{rest}"
        );
        std::fs::write(folder.join(format!("{name}.toml")), text).expect("write");
    }

    pub fn cache(&self) -> ModelCache {
        ModelCache::new(self.settings.clone()).expect("manifests")
    }

    pub fn models(&self, name: &str) -> PathBuf {
        self.settings.cache_root.join("models").join(name)
    }
}

pub const HUB_SOURCE: &str = "[[source]]\nhub = { repo = \"tests/tiny\", files = [\"config.json\", \"tokenizer.json\", \
                          \"*.safetensors\"], optional = [\"model.safetensors.index.json\"] }\n";

pub fn single() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("README.md", b"# not fetched".to_vec()),
        ("config.json", b"{\"model_type\":\"qwen3\"}".to_vec()),
        ("model.safetensors", noise(700_001, 1)),
        ("onnx/model.safetensors", noise(10, 9)),
        ("tokenizer.json", b"{}".to_vec()),
    ]
}

pub fn sharded() -> Vec<(&'static str, Vec<u8>)> {
    let index =
        r#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;
    vec![
        ("config.json", b"{}".to_vec()),
        ("model-00001-of-00002.safetensors", noise(300_000, 2)),
        ("model-00002-of-00002.safetensors", noise(200_000, 3)),
        ("model.safetensors.index.json", index.as_bytes().to_vec()),
        ("tokenizer.json", b"{}".to_vec()),
    ]
}

pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("folder");
    let mut names: Vec<_> =
        entries.map(|e| e.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != ".lock");
    names.sort();
    names
}

pub fn assert_holds(folder: &Path, files: &[(&str, Vec<u8>)]) {
    for (path, content) in files {
        assert!(std::fs::read(folder.join(path)).expect(path) == *content, "{path} differs");
    }
}

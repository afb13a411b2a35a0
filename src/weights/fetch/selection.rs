//! Which files of a repository make up a model.
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::FetchError;
use crate::weights::manifest::HubSource;

/// Beside the weights, what a folder in the Hugging Face layout must hold.
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];
/// And what is taken along where it exists.
const WELCOME: [&str; 5] = [
    "tokenizer_config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
];

/// Chooses from `paths`, all the files of a repository at `commit`. A source without patterns (`hf:owner/name`) takes
/// the safetensors and what belongs to them, or the only GGUF file.
pub(super) fn select(source: &HubSource, commit: &str, paths: &[String]) -> Result<Vec<String>, FetchError> {
    let missing = |pattern: &str| FetchError::NoSuchFile {
        repo: source.repo.clone(),
        commit: commit.to_string(),
        pattern: pattern.to_string(),
    };
    if source.files.is_empty() {
        return select_by_layout(source, paths, &missing);
    }
    let mut chosen = Vec::new();
    for (pattern, is_required) in
        source.files.iter().map(|p| (p, true)).chain(source.optional.iter().map(|p| (p, false)))
    {
        let matcher = matcher(pattern).ok_or_else(|| missing(pattern))?;
        let before = chosen.len();
        chosen.extend(paths.iter().filter(|path| matcher.is_match(path)).cloned());
        if is_required && chosen.len() == before {
            return Err(missing(pattern));
        }
    }
    chosen.sort();
    chosen.dedup();
    Ok(chosen)
}

fn select_by_layout(
    source: &HubSource,
    paths: &[String],
    missing: &dyn Fn(&str) -> FetchError,
) -> Result<Vec<String>, FetchError> {
    let at_root = |suffix: &str| -> Vec<String> {
        paths.iter().filter(|path| path.ends_with(suffix) && !path.contains('/')).cloned().collect()
    };
    let mut weights = at_root(".safetensors");
    if weights.is_empty() {
        let gguf = at_root(".gguf");
        return match gguf.len() {
            0 => Err(missing("*.safetensors")),
            1 => Ok(gguf),
            _ => Err(FetchError::SeveralGguf { repo: source.repo.clone(), files: gguf }),
        };
    }
    // Some repositories hold the same weights twice, as `model*` for transformers and under another name.
    if weights.iter().any(|path| path.starts_with("model")) {
        weights.retain(|path| path.starts_with("model"));
    }
    let mut chosen = weights;
    for name in NEEDED {
        let path = paths.iter().find(|path| *path == name).ok_or_else(|| missing(name))?;
        chosen.push(path.clone());
    }
    chosen.extend(paths.iter().filter(|path| WELCOME.contains(&path.as_str())).cloned());
    chosen.extend(at_root("model.safetensors.index.json"));
    chosen.sort();
    Ok(chosen)
}

fn matcher(pattern: &str) -> Option<GlobMatcher> {
    GlobBuilder::new(pattern).literal_separator(true).build().ok().map(|glob| glob.compile_matcher())
}

/// Whether `chosen`, selected from what lies in `folder`, is a whole model: every shard that the index or the shards'
/// own numbering names is there. A cache may hold any part of a repository.
pub(super) fn is_whole(folder: &Path, chosen: &[String]) -> bool {
    let has = |name: &str| chosen.iter().any(|path| path == name);
    if has("model.safetensors.index.json") {
        let Ok(text) = std::fs::read_to_string(folder.join("model.safetensors.index.json")) else {
            return false;
        };
        let Ok(index) = serde_json::from_str::<serde_json::Value>(&text) else {
            return false;
        };
        let Some(map) = index.get("weight_map").and_then(|map| map.as_object()) else {
            return false;
        };
        return !map.is_empty() && map.values().all(|shard| shard.as_str().is_some_and(has));
    }
    // Without the index, shards cannot be read, so that the index is what is missing.
    !chosen.iter().any(|path| path.ends_with(".safetensors") && path.contains("-of-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(files: &[&str], optional: &[&str]) -> HubSource {
        let owned = |list: &[&str]| list.iter().map(|text| text.to_string()).collect();
        HubSource {
            repo: "a/b".into(),
            revision: "main".into(),
            files: owned(files),
            optional: owned(optional),
        }
    }

    fn chosen(source: &HubSource, paths: &[&str]) -> Result<String, String> {
        let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
        select(source, "c0ffee", &paths).map(|paths| paths.join(" ")).map_err(|error| error.to_string())
    }

    #[test]
    fn globs_stay_in_their_folder_and_required_ones_must_match() {
        let paths = ["config.json", "model-1.safetensors", "onnx/model.safetensors", "b.json"];
        let both = source(&["config.json", "*.safetensors"], &["b.*", "absent.json"]);
        assert_eq!(chosen(&both, &paths).as_deref(), Ok("b.json config.json model-1.safetensors"));
        let error = chosen(&source(&["tokenizer.json"], &[]), &paths).expect_err("required");
        assert!(
            error.contains("tokenizer.json") && error.contains("a/b") && error.contains("c0ffee"),
            "{error}"
        );
    }

    #[test]
    fn without_patterns_the_layout_decides() {
        let any = source(&[], &[]);
        let hf =
            ["README.md", "config.json", "tokenizer.json", "model.safetensors", "consolidated.safetensors"];
        assert_eq!(chosen(&any, &hf).as_deref(), Ok("config.json model.safetensors tokenizer.json"));
        assert_eq!(chosen(&any, &["README.md", "one.gguf"]).as_deref(), Ok("one.gguf"));
        let several = chosen(&any, &["a.gguf", "b.gguf"]).expect_err("ambiguous");
        assert!(several.contains("a.gguf, b.gguf") && several.contains("hf:a/b:FILE"), "{several}");
        assert!(
            chosen(&any, &["config.json", "model.safetensors"])
                .expect_err("no tokenizer")
                .contains("tokenizer")
        );
        assert!(chosen(&any, &["README.md"]).is_err());
    }

    #[test]
    fn a_model_with_a_missing_shard_is_not_whole() {
        let folder = tempfile::tempdir().expect("folder");
        let names = |list: &[&str]| list.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        let index = r#"{"weight_map":{"a":"model-1-of-2.safetensors","b":"model-2-of-2.safetensors"}}"#;
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).expect("write");
        let both = ["model-1-of-2.safetensors", "model-2-of-2.safetensors", "model.safetensors.index.json"];
        assert!(is_whole(folder.path(), &names(&both)));
        assert!(!is_whole(folder.path(), &names(&both[1..])));
        assert!(!is_whole(folder.path(), &names(&both[..2])), "no index");
        assert!(is_whole(folder.path(), &names(&["model.safetensors"])));
        std::fs::write(folder.path().join("model.safetensors.index.json"), "{").expect("write");
        assert!(!is_whole(folder.path(), &names(&both)), "damaged index");
    }
}

use super::*;
use serde_json::json;

fn folder(files: &[(&str, serde_json::Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }
    folder
}

fn modules(kinds: &[(&str, &str)]) -> serde_json::Value {
    let module = |(path, kind): &(&str, &str)| json!({ "path": path, "type": format!("sentence_transformers.models.{kind}") });
    kinds.iter().map(module).collect()
}

fn published(files: &[(&str, serde_json::Value)]) -> Result<Published, String> {
    Published::read(folder(files).path()).map_err(|error| error.to_string())
}

#[test]
fn pooling_is_what_the_files_beside_a_model_say() {
    let mean = json!({ "word_embedding_dimension": 8, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true });
    let last = json!({ "pooling_mode_lasttoken": true, "include_prompt": true });
    let found = |pooling, max_tokens| Ok(Published { pooling, max_tokens });
    assert_eq!(published(&[]), found(None, None));
    assert_eq!(published(&[("1_Pooling/config.json", mean.clone())]), found(Some(Pooling::Mean), None));
    assert_eq!(
        published(&[("1_Pooling/config.json", json!({ "pooling_mode": "cls" }))]),
        found(Some(Pooling::Cls), None)
    );
    let all = [
        ("modules.json", modules(&[("", "Transformer"), ("other", "Pooling"), ("2", "Normalize")])),
        ("other/config.json", last),
        ("1_Pooling/config.json", mean),
        ("sentence_bert_config.json", json!({ "max_seq_length": 256 })),
    ];
    assert_eq!(published(&all), found(Some(Pooling::Last), Some(256)));
}

#[test]
fn what_cannot_be_pooled_is_refused_by_file() {
    let two = json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true });
    let cases = [
        ("1_Pooling/config.json", two, "cls_token and mean_tokens"),
        ("1_Pooling/config.json", json!({ "pooling_mode_max_tokens": true }), "max_tokens"),
        ("1_Pooling/config.json", json!([]), "pools by"),
        ("modules.json", modules(&[("", "Transformer"), ("1", "Dense")]), "Dense"),
        ("modules.json", json!({}), "modules.json"),
        ("sentence_bert_config.json", json!({ "max_seq_length": "long" }), "max_seq_length"),
    ];
    for (file, content, named) in cases {
        let error = published(&[(file, content)]).unwrap_err();
        assert!(error.contains(file) && error.contains(named), "{named}: {error}");
    }
}

fn tiny(settings: EmbedSettings) -> Result<Embedder, EmbedError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoders/tiny-xlm-roberta-large");
    Embedder::load(&path, EngineOptions::default(), settings, &mut |_, _| {})
}

fn embed(settings: EmbedSettings, texts: &[&str]) -> Vec<Embedding> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let mut found = Vec::new();
    let mut take = |index, embedding| {
        assert_eq!(index, found.len());
        found.push(embedding);
        Ok(())
    };
    tiny(settings).unwrap().embed(&texts, &mut take).unwrap();
    found
}

#[test]
fn vectors_have_length_one_and_depend_on_their_text_alone() {
    let long = "The harbour master moved the crane. ".repeat(60);
    let texts = ["the north jetty", "", &long, "the north jetty", "mail"];
    for pooling in [Pooling::Mean, Pooling::Cls, Pooling::Last] {
        let settings = EmbedSettings { pooling: Some(pooling), max_tokens: None };
        let found = embed(settings, &texts);
        assert_eq!(found.len(), texts.len());
        assert_eq!(found[0], found[3]);
        assert_ne!(found[0].embedding, found[4].embedding);
        assert_eq!((found[2].tokens, found[2].is_cut, found[1].tokens), (512, true, 2));
        for (text, whole) in texts.iter().zip(&found) {
            let length: f32 = whole.embedding.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!((length - 1.0).abs() < 1e-6, "{length}");
            assert_eq!(embed(settings, &[text])[0], *whole, "{pooling:?} {text:?}");
        }
    }
}

#[test]
fn a_limit_keeps_the_tokens_around_a_text() {
    let settings = EmbedSettings { pooling: Some(Pooling::Last), max_tokens: Some(5) };
    let cut = &embed(settings, &["one two three four five six"])[0];
    assert_eq!((cut.tokens, cut.is_cut), (5, true));
    for (max_tokens, is_fine) in [(2, false), (3, true), (512, true), (513, false)] {
        let settings = EmbedSettings { max_tokens: Some(max_tokens), ..settings };
        let loaded = tiny(settings);
        assert_eq!(loaded.is_ok(), is_fine, "{max_tokens}");
        assert!(is_fine || matches!(loaded.err(), Some(EmbedError::MaxTokens { least: 3, limit: 512, .. })));
    }
}

#[test]
fn an_encoder_that_does_not_say_how_it_pools_is_refused_and_a_decoder_pools_its_last_token() {
    let error = tiny(EmbedSettings::default()).err().unwrap();
    assert!(
        matches!(error, EmbedError::NoPooling { .. }) && error.to_string().contains("--pooling"),
        "{error}"
    );
    let decoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/qwen3");
    let settings = EmbedSettings { pooling: Some(Pooling::Mean), max_tokens: None };
    let error = Embedder::load(&decoder, EngineOptions::default(), settings, &mut |_, _| {}).err().unwrap();
    assert!(matches!(error, EmbedError::DecoderPooling { pooling: Pooling::Mean }), "{error}");
}

//! Opening files and folders.
use super::super::{
    ModelMetadata, WeightDtype, Weights, WeightsError, file_digest,
    testing::{GgufWriter, Scratch, Value, bf16_safetensors, rich_gguf, safetensors_file},
};

const CONFIG: &str = r#"{"model_type":"qwen3","hidden_size":4}"#;

fn error_of(path: &std::path::Path) -> WeightsError {
    match Weights::open(path) {
        Ok(_) => panic!("{} opened", path.display()),
        Err(error) => error,
    }
}

#[test]
fn a_gguf_file_opens_under_any_name() {
    let scratch = Scratch::new();
    let bytes = GgufWriter::new("llama")
        .tensor("token_embd.weight", &[32, 3], 8, &[1; 102])
        .tensor("blk.0.attn_q.weight", &[4, 2], 0, &[2; 32])
        .tensor("blk.0.ffn_up.weight", &[256], 17, &[3; 74])
        .finish();
    for name in ["m.gguf", "0123abcd"] {
        let weights = Weights::open(&scratch.write(name, &bytes)).unwrap();
        let ModelMetadata::Gguf(metadata) = weights.metadata() else {
            panic!("not GGUF");
        };
        assert_eq!(metadata.architecture().unwrap(), "llama");
        assert!(weights.conventions().rope_pairs_interleaved);
        assert_eq!(weights.total_bytes(), 102 + 32 + 74);
        assert_eq!(
            weights.tensor_names(),
            [
                "model.embed_tokens.weight",
                "model.layers.0.self_attn.q_proj.weight",
                "model.layers.0.mlp.up_proj.weight"
            ]
        );
        let view = weights.require("model.embed_tokens.weight", &[3, 32]).unwrap();
        assert_eq!((view.name, view.dtype), ("token_embd.weight", WeightDtype::Q8_0));
        assert_eq!(view.data, [1; 102]);
        assert!(weights.get("token_embd.weight").unwrap().is_none());
        let error = weights.get("model.layers.0.mlp.up_proj.weight").unwrap_err();
        assert!(error.to_string().contains("\"blk.0.ffn_up.weight\" is stored as IQ2_XS"), "{error}");
        let error = weights.require("model.embed_tokens.weight", &[32, 3]).unwrap_err();
        assert!(error.to_string().contains("has shape [3, 32], expected [32, 3]"), "{error}");
        let error = weights.require("model.norm.weight", &[4]).unwrap_err();
        assert!(matches!(error, WeightsError::MissingTensor { .. }), "{error}");
    }
}

#[test]
fn gguf_files_that_cannot_be_used_are_refused() {
    let scratch = Scratch::new();
    let split = GgufWriter::new("llama").key("split.count", Value::U16(3)).finish();
    let error = error_of(&scratch.write("split.gguf", split));
    assert!(matches!(error, WeightsError::SplitGguf { count: 3, .. }), "{error}");
    let mut nameless = GgufWriter::new("llama");
    nameless.keys.clear();
    let error = error_of(&scratch.write("nameless.gguf", nameless.finish()));
    assert!(error.to_string().contains("\"general.architecture\" is missing"), "{error}");
    let clash = GgufWriter::new("llama").tensor("output.weight", &[1], 0, &[0; 4]).tensor(
        "lm_head.weight",
        &[1],
        0,
        &[0; 4],
    );
    let error = error_of(&scratch.write("clash.gguf", clash.finish()));
    assert!(matches!(error, WeightsError::NameClash { .. }), "{error}");
    let error = error_of(&scratch.write("other.gguf", "{\"no\": \"gguf\"}"));
    assert!(matches!(error, WeightsError::Magic { .. }), "{error}");
    let error = error_of(&scratch.write("empty.gguf", ""));
    assert!(matches!(error, WeightsError::Truncated { .. }), "{error}");
    let error = error_of(&scratch.write("empty", ""));
    assert!(matches!(error, WeightsError::UnknownFormat { .. }), "{error}");
    let error = error_of(&scratch.path().join("absent.gguf"));
    assert!(matches!(error, WeightsError::Io { .. }), "{error}");
    assert!(error.to_string().contains("absent.gguf: cannot open"), "{error}");
    assert!(matches!(error_of(std::path::Path::new("/dev/null")), WeightsError::NotAFile { .. }));
}

#[test]
fn a_folder_and_its_file_open_alike() {
    let scratch = Scratch::new();
    scratch.write("config.json", CONFIG);
    let file = scratch.write(
        "model.safetensors",
        bf16_safetensors(&[
            ("model.language_model.norm.weight", &[4]),
            ("language_model.lm_head.weight", &[3, 4]),
            ("model.visual.a", &[2]),
            ("model.visual.b", &[2]),
            ("mtp.x", &[1]),
        ]),
    );
    for path in [scratch.path(), &file] {
        let weights = Weights::open(path).unwrap();
        let ModelMetadata::HfFolder { config, generation_config, folder } = weights.metadata() else {
            panic!("not a folder");
        };
        assert_eq!(config["hidden_size"], 4);
        assert!(generation_config.is_null());
        assert_eq!(folder, scratch.path());
        let mut names = weights.tensor_names();
        names.sort();
        assert_eq!(names, ["lm_head.weight", "model.norm.weight"]);
        let mut skipped = weights.skipped().to_vec();
        skipped.sort();
        assert_eq!(skipped, [("model.visual".to_string(), 2), ("mtp".to_string(), 1)]);
        assert_eq!(weights.total_bytes(), 8 + 24);
        assert_eq!(weights.require("lm_head.weight", &[3, 4]).unwrap().data.len(), 24);
    }
}

#[test]
fn configs_are_checked() {
    let scratch = Scratch::new();
    scratch.write("model.safetensors", bf16_safetensors(&[("a", &[1])]));
    let error = error_of(scratch.path());
    assert!(error.to_string().contains("config.json: cannot open"), "{error}");
    scratch.write("config.json", "{\"a\": 1,\n  oops}");
    let error = error_of(scratch.path());
    assert!(error.to_string().contains("line 2"), "{error}");
    scratch.write("config.json", "[1]");
    assert!(error_of(scratch.path()).to_string().contains("is not an object"));
    scratch.write("config.json", vec![b' '; (4 << 20) + 1]);
    let error = error_of(scratch.path());
    assert!(matches!(error, WeightsError::FileTooLarge { length: 4_194_305, .. }), "{error}");
    scratch.write("config.json", CONFIG);
    scratch.write("generation_config.json", "nope");
    assert!(error_of(scratch.path()).to_string().contains("generation_config.json"));
    scratch.write("generation_config.json", r#"{"eos_token_id":[1,2]}"#);
    let weights = Weights::open(scratch.path()).unwrap();
    let ModelMetadata::HfFolder { generation_config, .. } = weights.metadata() else {
        panic!("not a folder");
    };
    assert_eq!(generation_config["eos_token_id"][1], 2);
}

#[test]
fn a_folder_without_weights_says_what_it_looked_for() {
    let scratch = Scratch::new();
    scratch.write("config.json", CONFIG);
    scratch.write("m.gguf", rich_gguf().finish());
    let error = error_of(scratch.path());
    assert!(matches!(error, WeightsError::NoWeights { gguf_files: 1, .. }), "{error}");
}

/// Two shards; `index` is the weight map.
fn sharded(index: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("config.json", CONFIG);
    scratch.write("s1.safetensors", bf16_safetensors(&[("model.a", &[1])]));
    scratch.write("s2.safetensors", bf16_safetensors(&[("model.b", &[2]), ("model.c", &[3])]));
    scratch.write(
        "model.safetensors.index.json",
        format!(r#"{{"metadata":{{"total_size":12}},"weight_map":{{{index}}}}}"#),
    );
    scratch
}

const INDEX: &str = r#""model.b":"s2.safetensors","model.a":"s1.safetensors","model.c":"s2.safetensors""#;

#[test]
fn shards_are_read_as_one_model() {
    let scratch = sharded(INDEX);
    let weights = Weights::open(scratch.path()).unwrap();
    assert_eq!(weights.tensor_names(), ["model.a", "model.b", "model.c"]);
    assert_eq!(weights.require("model.c", &[3]).unwrap().data, [2; 6]);
    assert_eq!(weights.require("model.a", &[1]).unwrap().data, [1; 2]);
    assert_eq!(weights.weight_files().count(), 2);
}

#[test]
fn an_index_that_contradicts_its_shards_is_refused() {
    let refused = |index: String| error_of(sharded(&index).path());
    let error = refused(INDEX.replace("s1.saf", "s3.saf"));
    assert!(
        matches!(&error, WeightsError::MissingShard { shard, .. } if shard == "s3.safetensors"),
        "{error}"
    );
    let error = refused(format!(r#"{INDEX},"model.d":"s1.safetensors""#));
    assert!(matches!(&error, WeightsError::NotInShard { tensor, .. } if tensor == "model.d"), "{error}");
    let error = refused(INDEX.replace(r#","model.c":"s2.safetensors""#, ""));
    assert!(matches!(&error, WeightsError::NotInIndex { tensor, .. } if tensor == "model.c"), "{error}");
    let error = refused(format!(r#"{INDEX},"model.a":"s2.safetensors""#));
    assert!(matches!(error, WeightsError::Duplicate { .. }), "{error}");
    for name in ["../s1.safetensors", "/etc/passwd", "..", "", "d/s1.safetensors", "s1.safetensors/"] {
        let error = refused(INDEX.replace("s1.safetensors", name));
        assert!(matches!(error, WeightsError::ShardName { .. }), "{name}: {error}");
    }
    let scratch = sharded(INDEX);
    scratch.write("model.safetensors.index.json", r#"{"weight_map": 3}"#);
    let error = error_of(scratch.path());
    assert!(matches!(error, WeightsError::Json { what: "index", .. }), "{error}");
}

#[test]
fn digests_are_those_of_sha256sum() {
    // sha256 of "abc", FIPS 180-2.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let scratch = Scratch::new();
    assert_eq!(file_digest(&scratch.write("abc", "abc")).unwrap(), abc);

    let gguf = scratch.write("m.gguf", rich_gguf().finish());
    let weights = Weights::open(&gguf).unwrap();
    assert_eq!(weights.digest().unwrap(), file_digest(&gguf).unwrap());

    let scratch = sharded(INDEX);
    let weights = Weights::open(scratch.path()).unwrap();
    let before = weights.digest().unwrap();
    let lines: String = ["config.json", "s1.safetensors", "s2.safetensors"]
        .iter()
        .map(|name| format!("{}  {name}\n", file_digest(&scratch.path().join(name)).unwrap()))
        .collect();
    assert_eq!(before, file_digest(&scratch.write("lines", lines)).unwrap());
    let mut last = (0, 0);
    weights.digest_with_progress(&mut |done, total| last = (done, total)).unwrap();
    assert!(last.0 == last.1 && last.1 > 0, "{last:?}");
    scratch.write("config.json", CONFIG.replace('4', "5"));
    assert_ne!(before, weights.digest().unwrap());
}

#[test]
fn an_unsupported_tensor_does_not_hide_the_others() {
    let scratch = Scratch::new();
    scratch.write("config.json", CONFIG);
    let header = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}"#;
    scratch.write("model.safetensors", safetensors_file(header, &[1, 2, 3, 4]));
    let weights = Weights::open(scratch.path()).unwrap();
    assert_eq!(weights.require("b", &[1]).unwrap().data, [3, 4]);
    let error = weights.require("a", &[2]).unwrap_err();
    assert!(error.to_string().contains("\"a\" is stored as U8"), "{error}");
}

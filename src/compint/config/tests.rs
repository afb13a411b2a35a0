use super::*;
use crate::compint::Condition;
use crate::ops::KvDtype;
use std::path::Path;

const SMALL: &str = r#"
[run]
name = "small"
[haystacks]
files = ["a.jsonl", "b.jsonl"]
length = 3000
[models.m]
model = "smollm2-135m"
max_tokens = 512
[compact]
model = "m"
compactors = ["recent-5", "llm:continuity"]
[judge]
model = "m"
[probe]
model = "m"
max_tokens = 32
conditions = ["upper_bound", "compaction"]
"#;

fn parse(text: &str) -> Result<RunConfig, ConfigError> {
    RunConfig::parse(text, Path::new("configs/x.toml"))
}

#[test]
fn a_small_config_has_the_documented_defaults() {
    let config = parse(SMALL).unwrap();
    assert_eq!((config.run.seed, config.folder()), (42, PathBuf::from("runs/small")));
    assert_eq!(config.haystacks.0[0].files[0], Path::new("configs/a.jsonl"));
    assert_eq!(config.haystacks.0[0].setting(), "3000-top");
    let probe = config.probe.as_ref().unwrap();
    assert_eq!(probe.conditions.0, [Condition::Compaction, Condition::UpperBound]);
    assert_eq!(config.settings("m", probe.max_tokens).max_tokens, 32);
    assert_eq!(config.settings("m", None).max_tokens, 512);
    assert_eq!(config.settings("m", None).sampling.temperature, 0.0);
}

#[test]
fn the_limit_is_4096_where_nothing_says_otherwise_and_sampling_takes_the_runs_seed() {
    let text = SMALL
        .replace("max_tokens = 512", "sampling = { temperature = 0.5 }")
        .replace("[run]", "[run]\nseed = 7");
    let settings = parse(&text).unwrap().settings("m", None);
    assert_eq!((settings.max_tokens, settings.sampling.seed), (4096, 7));
}

#[test]
fn keys_and_values_have_the_type_that_the_config_names() {
    assert_eq!(parse(SMALL).unwrap().engine.kv_dtype, KvDtype::F32);
    let of = |name: &str| parse(&format!("{SMALL}[engine]\nkv_dtype = \"{name}\""));
    assert_eq!(of("bf16").unwrap().engine.kv_dtype, KvDtype::Bf16);
    assert_eq!(of("fp8").unwrap().engine.kv_dtype, KvDtype::Fp8);
    let error = of("q8_0").unwrap_err().to_string();
    assert!(error.contains("q8_0") && error.contains("`fp8`"), "{error}");
}

#[test]
fn several_haystack_tables_are_several_settings() {
    let text = SMALL.replace("[haystacks]", "[[haystacks]]")
        + "[[haystacks]]\nfiles = ['a']\nlength = 9\nposition = 'multi'\nrepeat = 3\nstrict = true\ndirect = false\n";
    let names: Vec<String> = parse(&text).unwrap().haystacks.0.iter().map(HaystackTable::setting).collect();
    assert_eq!(names, ["3000-top", "9-multi3-strict-indirect"]);
}

#[test]
fn what_is_wrong_is_named_by_file_and_key() {
    let cases = [
        (SMALL.replace("name = \"small\"", "name = \"../x\""), "run.name"),
        (SMALL.replace("[run]", "[run]\ncolour = 1"), "colour"),
        (SMALL.replace("length = 3000", ""), "length"),
        (SMALL.replace("length = 3000", "length = -1"), "length"),
        (SMALL.replace("length = 3000", "length = 3000\nposition = 'native'"), "haystacks[0].position"),
        (SMALL.replace("length = 3000", "length = 3000\nposition = 'multi'"), "haystacks[0].repeat"),
        (SMALL.replace("[run]", "[run]\ndate = '2026-13-01'"), "run.date"),
        (SMALL.replace("recent-5", "recent-0"), "recent-0"),
        (SMALL.replace("recent-5", "recent-5+extractor"), "extract"),
        (SMALL.replace("recent-5", "llmlingua2"), "compact.encoder"),
        (SMALL.replace("compactors", "encoder = 'n'\ncompactors"), "compact.encoder"),
        (SMALL.replace("\"llm:continuity\"", "\"recent-5\""), "occurs twice"),
        (SMALL.replace("[judge]\nmodel = \"m\"", "[judge]\nmodel = \"n\""), "judge.model"),
        (SMALL.replace("\"upper_bound\", ", "\"sideways\", "), "sideways"),
        (SMALL.replace("max_tokens = 32", "max_tokens = 0"), "probe.max_tokens"),
        (SMALL.replace("max_tokens = 512", "sampling = { top_p = 2.0 }"), "models.m.sampling"),
        (SMALL.replace("max_tokens = 512", "quantize = 'q3_k'"), "q8_0, q6_k"),
        (
            SMALL
                .replace("max_tokens = 512", "quantize = 'q8_0'")
                .replace("compactors", "encoder = 'm'\ncompactors"),
            "models.m.quantize",
        ),
        ("run = 1".to_owned(), "run"),
        ("\u{0}".to_owned(), "x.toml"),
    ];
    for (text, named) in cases {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains("configs/x.toml") && error.contains(named), "{named}: {error}");
    }
}

#[test]
fn truncated_configs_are_refused_or_whole() {
    for end in 0..SMALL.len() {
        // Cutting between tables can leave a config that is whole; what matters is that nothing panics.
        if let Err(error) = parse(&SMALL[..end]) {
            assert!(error.to_string().contains("configs/x.toml"));
        }
    }
}

#[test]
fn every_config_of_the_repository_is_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let config = RunConfig::load(&path).unwrap();
            assert_eq!(path.file_stem().unwrap().to_str().unwrap(), config.run.name);
            names.push(config.run.name);
        }
    }
    names.sort();
    assert_eq!(names, ["quickstart", "rq1", "rq2", "rq3", "rq4"]);
}

//! What is planned is what an engine reports once it is loaded, and what its requests hold.

use std::path::Path;

use longwick::engine::{
    Engine, EngineError, EngineOptions, GenerateParams, MemoryPlan, Request, RequestKind,
};
use longwick::ops::KvDtype;
use longwick::weights::Quantization;
use longwick::weights::manifest::ManifestSet;

use crate::{REAL, alone, assets, checkpoints, options, plan_of, request};

fn check_report(path: &Path, options: EngineOptions) {
    let plan = plan_of(path, &options, 100);
    let engine = assets::load(path, options);
    let memory = engine.memory();
    let name = path.display();
    assert_eq!(
        (plan.weights.in_memory(), plan.weights.mapped),
        (memory.weights, memory.mapped_weights),
        "{name}"
    );
    let tokens = |full_only: bool| -> usize {
        let counted = plan.groups.iter().filter(|group| !full_only || group.window.is_none());
        counted.map(|group| group.bytes_per_token).sum()
    };
    assert_eq!(tokens(false), memory.kv_bytes_per_token, "{name}");
    assert_eq!(tokens(true), memory.kv_bytes_per_token_past_windows, "{name}");
    assert_eq!(plan.block_bytes * memory.kv_blocks, memory.kv_pool, "{name}");
    assert_eq!(plan.states.as_ref().map_or(0, |states| states.slot_bytes), memory.state_slot_bytes, "{name}");
    assert_eq!(plan.states.is_some(), memory.state_slots > 0, "{name}");
    assert_eq!(plan.context_limit, engine.context_length(), "{name}");
}

#[test]
fn plans_are_what_engines_report() {
    let _alone = alone();
    for path in checkpoints() {
        check_report(&path, options(KvDtype::F32, 512));
        check_report(&path, options(KvDtype::Bf16, 64));
        check_report(&path, options(KvDtype::Fp8, 100));
    }
    for (_, file) in REAL {
        let Some(path) = assets::real_model(file) else { continue };
        check_report(&path, options(KvDtype::Bf16, 512));
    }
}

/// A pool of exactly the planned blocks and slots takes a sequence of the planned length, and one block less refuses it.
#[test]
fn a_planned_sequence_fits_and_nothing_less_does() {
    let _alone = alone();
    for path in checkpoints() {
        let mut options = options(KvDtype::F32, 64);
        let (prompt_len, answer) = (700, 20);
        if plan_of(&path, &options, 64).context_limit < prompt_len + answer {
            println!("skipped: {} takes fewer tokens", path.display());
            continue;
        }
        let plan = plan_of(&path, &options, prompt_len + answer);
        let blocks: usize = plan.groups.iter().map(|group| group.blocks).sum();
        let slots = plan.states.as_ref().map_or(0, |states| states.bytes);
        assert_eq!(plan.sequence, blocks * plan.block_bytes + slots);
        options.state_pool_bytes = Some(slots as u64);
        let request = || {
            let prompt = (0..prompt_len as u32).map(|place| 3 + place * 7 % 200).collect();
            let params = GenerateParams { max_tokens: answer, ignore_eos: true, ..GenerateParams::default() };
            Request::new(prompt, RequestKind::Generate(params))
        };
        options.kv_pool_bytes = Some((blocks * plan.block_bytes) as u64);
        let mut engine = assets::load(&path, options.clone());
        engine.run(request()).unwrap();
        assert_eq!(engine.stats().preemptions, 0, "{}", path.display());
        options.kv_pool_bytes = Some(((blocks - 1) * plan.block_bytes) as u64);
        let refused = assets::load(&path, options).submit(request());
        assert!(matches!(refused, Err(EngineError::PoolTooSmall { .. })), "{}", path.display());
    }
}

/// What is quantised at load is planned as it will be, whatever the checkpoint's widths allow.
#[test]
fn quantised_plans_are_what_engines_report() {
    let _alone = alone();
    let mut quantised = 0;
    for path in checkpoints() {
        for format in [Quantization::Q8_0, Quantization::Q4K] {
            let options = EngineOptions { quantization: Some(format), ..options(KvDtype::F32, 64) };
            let planned = MemoryPlan::of_files(&path, &[], &options, &request(100));
            let loaded = Engine::load(&path, options, &mut |_, _| {});
            match (planned, loaded) {
                (Ok(plan), Ok(engine)) => {
                    quantised += 1;
                    assert_eq!(plan.weights.in_memory(), engine.memory().weights, "{}", path.display());
                    let report = engine.quantization().map(ToString::to_string);
                    assert_eq!(plan.quantization, report, "{}", path.display());
                }
                (Err(planned), Err(loaded)) => assert_eq!(planned.to_string(), loaded.to_string()),
                (planned, loaded) => {
                    panic!("{}: planned {planned:?}, loaded {:?}", path.display(), loaded.map(|_| ()))
                }
            }
        }
    }
    assert!(quantised > 0, "no checkpoint could be quantised");
}

/// The manifest of a model tells the same as its file does.
#[test]
fn manifests_tell_what_files_hold() {
    let _alone = alone();
    let manifests = ManifestSet::load(Path::new("/nonexistent/manifests")).unwrap();
    for (name, file) in REAL {
        let Some(path) = assets::real_model(file) else { continue };
        let options = options(KvDtype::F32, 512);
        let context = 5_000;
        let planned =
            MemoryPlan::of_manifest(manifests.get(name).unwrap(), &options, &request(context)).unwrap();
        let mut read = plan_of(&path, &options, context);
        read.model = planned.model.clone();
        assert_eq!(planned, read, "{name}");
    }
}

/// A checkpoint whose config ties the projection to the embedding may hold a copy of it: it is neither planned nor loaded.
#[test]
fn a_copy_of_a_tied_embedding_is_left_alone() {
    let _alone = alone();
    let untied = assets::own_fixture("llama");
    let folder = tempfile::tempdir().unwrap();
    let config = std::fs::read_to_string(untied.join("config.json")).unwrap();
    let tied = config.replace("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    assert_ne!(tied, config, "the fixture is no longer untied");
    std::fs::write(folder.path().join("config.json"), tied).unwrap();
    std::fs::copy(untied.join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    let options = options(KvDtype::F32, 64);
    let [untied, tied] = [untied.as_path(), folder.path()].map(|path| plan_of(path, &options, 100).weights);
    assert_eq!(untied.parameters - tied.parameters, 259 * 48);
    let engine = assets::load(folder.path(), options);
    assert_eq!(engine.memory().weights, tied.in_memory());
}

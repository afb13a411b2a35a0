//! Plans of published models, beside bytes worked out by hand from their published shapes.
use super::*;
use crate::weights::Quantization;
use crate::weights::manifest::ManifestSet;

const CONTEXT: usize = 100_000;
/// Blocks of 16 tokens, all of them: what a full layer holds.
const BLOCKS: usize = 100_000 / 16;
const BF16: usize = 2;
const F32: usize = 4;

fn manifest(name: &str) -> ModelManifest {
    let set = ManifestSet::load(Path::new("/nonexistent/manifests")).unwrap();
    set.get(name).unwrap_or_else(|| panic!("{name} has no manifest")).clone()
}

fn plan(name: &str, request: PlanRequest) -> Result<MemoryPlan, PlanError> {
    MemoryPlan::of_manifest(&manifest(name), &EngineOptions::default(), &request)
}

fn request(context: usize) -> PlanRequest {
    PlanRequest { context, ..PlanRequest::default() }
}

/// `(window, layers, bytes a token, blocks)` of each group.
fn groups(plan: &MemoryPlan) -> Vec<(Option<u32>, usize, usize, usize)> {
    let of = |group: &GroupPlan| (group.window, group.layers, group.bytes_per_token, group.blocks);
    plan.groups.iter().map(of).collect()
}

#[test]
fn gpt_oss_120b() {
    let plan = plan("gpt-oss-120b", request(CONTEXT)).unwrap();
    let (hidden, layers, experts) = (2_880, 36, 128);
    let (q, kv) = (64 * 64, 8 * 64);
    let attention = hidden * q + 2 * hidden * kv + q * hidden;
    let router = experts * hidden;
    let embedding_and_head = 2 * 201_088 * hidden;
    // Gate, up and down; 32 elements are 16 bytes and a scale.
    let expert_elements = experts * 3 * hidden * hidden;
    let expected =
        (embedding_and_head + layers * (attention + router)) * BF16 + layers * expert_elements / 32 * 17;
    assert_eq!(plan.weights.packed, expected);
    let attention_vectors = q + 2 * kv + hidden + 64;
    let expert_biases = experts * 3 * hidden;
    let layer_vectors = attention_vectors + 2 * hidden + experts + expert_biases;
    assert_eq!(plan.weights.vectors, (layers * layer_vectors + hidden) * F32);
    assert_eq!(plan.weights.mapped, 0);
    // The model card: 116.83 billion parameters. Its safetensors index: 65,248,815,744 bytes, vectors in bf16.
    assert!((plan.weights.parameters as f64 / 1e9 - 116.83).abs() < 0.005, "{}", plan.weights.parameters);
    assert_eq!(plan.weights.packed + plan.weights.vectors / 2, 65_248_815_744);
    // 18 layers of each kind; keys and values of 8 heads of 64. A window of 128 and a step of 512 straddle 41 blocks.
    let token = 18 * 2 * 8 * 64 * F32;
    assert_eq!(groups(&plan), [(Some(128), 18, token, 41), (None, 18, token, BLOCKS)]);
    assert_eq!(plan.sequence, (BLOCKS + 41) * 16 * token);
    assert!(plan.states.is_none());
    assert_eq!(plan.total, plan.weights.packed + plan.weights.vectors + plan.scratch + plan.sequence);
}

#[test]
fn qwen3_30b_a3b() {
    let extended = PlanRequest { rope_extension: Some("yarn".to_owned()), ..request(CONTEXT) };
    let plan = plan("qwen3-30b-a3b", extended).unwrap();
    let (hidden, layers, experts, inner) = (2_048, 48, 128, 768);
    let (q, kv) = (32 * 128, 4 * 128);
    let attention = hidden * q + 2 * hidden * kv + q * hidden;
    let layer = attention + experts * hidden + experts * 3 * inner * hidden;
    let matrices = 2 * 151_936 * hidden + layers * layer;
    let vectors = layers * (2 * hidden + 2 * 128) + hidden;
    assert_eq!(plan.weights.packed, matrices * BF16);
    assert_eq!(plan.weights.vectors, vectors * F32);
    // The safetensors index of the 2507 models, which have the same shapes: 61,064,245,248 bytes of bf16.
    assert_eq!(plan.weights.parameters, (matrices + vectors) as u64);
    assert_eq!(plan.weights.parameters * 2, 61_064_245_248);
    let token = 48 * 2 * 4 * 128 * F32;
    assert_eq!(groups(&plan), [(None, 48, token, BLOCKS)]);
    assert_eq!(plan.sequence, 19_660_800_000);
    assert_eq!(plan.context_limit, 131_072);
}

#[test]
fn gemma_4_e4b() {
    let plan = plan("gemma4-e4b-it", request(CONTEXT)).unwrap();
    let (hidden, layers, inner, size, vocab) = (2_560, 42, 10_240, 256, 262_144);
    // Seven layers are full, with heads of 512; the first 24 layers have keys and values, and four of them are full.
    let queries = 2 * (35 * 8 * 256 + 7 * 8 * 512) * hidden;
    let keys_and_values = 2 * (20 * 2 * 256 + 4 * 2 * 512) * hidden;
    let mlps = layers * 3 * inner * hidden;
    // Gate, projection back, and the layer's part of the projection that all share.
    let inputs = layers * 3 * size * hidden;
    let matrices = vocab * hidden + queries + keys_and_values + mlps + inputs;
    assert_eq!(plan.weights.packed, matrices * BF16);
    // Four norms around the sub-blocks, one behind the input; norms of queries, and of keys where there are; a scalar.
    let head_norms = 35 * 256 + 7 * 512 + 20 * 256 + 4 * 512;
    let vectors = layers * (5 * hidden + 1) + head_norms + size + hidden;
    assert_eq!(plan.weights.vectors, vectors * F32);
    let table = vocab * layers * size;
    assert_eq!(plan.weights.mapped, table * BF16);
    assert_eq!(plan.weights.parameters, (matrices + vectors + table) as u64);
    // A page takes two full layers or four sliding ones, and every page is then full: 20 sliding layers in five groups, 4
    // full ones in two. A window of 512 and a step of 512 straddle 65 blocks.
    let token = 4 * 2 * 2 * 256 * F32;
    assert_eq!(token, 2 * 2 * 2 * 512 * F32);
    let mut found = groups(&plan);
    found.sort();
    let full = [(None, 2, token, BLOCKS); 2];
    let sliding = [(Some(512), 4, token, 65); 5];
    assert_eq!(found, [&full[..], &sliding[..]].concat());
    assert_eq!(plan.sequence, (2 * BLOCKS + 5 * 65) * 16 * token);
}

#[test]
fn qwen3_5_9b() {
    let plan = plan("qwen3.5-9b", request(CONTEXT)).unwrap();
    let (hidden, full, recurrent, inner) = (4_096, 8, 24, 12_288);
    let (q, kv) = (16 * 256, 4 * 256);
    // Queries and their gates, keys, values, and back.
    let attention = 2 * q * hidden + 2 * kv * hidden + q * hidden;
    let values = 32 * 128;
    let channels = 2 * 16 * 128 + values;
    // Queries, keys and values; the gate; beta and decay of each value head; and back.
    let net = channels * hidden + values * hidden + 2 * 32 * hidden + values * hidden;
    let mlps = (full + recurrent) * 3 * inner * hidden;
    let matrices = 2 * 248_320 * hidden + full * attention + recurrent * net + mlps;
    assert_eq!(plan.weights.packed, matrices * BF16);
    let net_vectors = 4 * channels + 2 * 32 + 128;
    let vectors = 32 * 2 * hidden + full * 2 * 256 + recurrent * net_vectors + hidden;
    assert_eq!(plan.weights.vectors, vectors * F32);
    let token = full * 2 * 4 * 256 * F32;
    assert_eq!(groups(&plan), [(None, 8, token, BLOCKS)]);
    // A state is a matrix of 128 x 128 a value head, and three tokens of the convolution's inputs. What is pending is less.
    let slot = recurrent * (32 * 128 * 128 + 3 * channels) * F32;
    let states = plan.states.as_ref().unwrap();
    assert_eq!((states.layers, states.slot_bytes, states.slots), (24, slot, 3));
    assert_eq!((states.snapshots, states.snapshot_bytes), (100_000 / 2_048, 48 * slot));
    assert_eq!(plan.sequence, BLOCKS * 16 * token + 3 * slot);
}

#[test]
fn quantised_at_load() {
    let options = EngineOptions { quantization: Some(Quantization::Q8_0), ..EngineOptions::default() };
    let plan = MemoryPlan::of_manifest(&manifest("qwen3-0.6b"), &options, &request(1_000)).unwrap();
    let (hidden, q, kv, inner) = (1_024, 16 * 128, 8 * 128, 3_072);
    let layer = hidden * q + 2 * hidden * kv + q * hidden + 3 * inner * hidden;
    // 32 elements are 32 bytes and a scale of two. The tied embedding is the vocabulary projection, and quantised as that.
    assert_eq!(plan.weights.packed, (151_936 * hidden + 28 * layer) / 32 * 34);
    let words = plan.quantization.unwrap();
    assert_eq!(words, "196 matrices quantised to q8_0, the vocabulary projection to q8_0");
    // What has experts in MXFP4 keeps them.
    let quantised = MemoryPlan::of_manifest(&manifest("gpt-oss-20b"), &options, &request(1_000)).unwrap();
    let words = quantised.quantization.unwrap();
    assert!(words.contains("MXFP4 in the file and stay so"), "{words}");
}

#[test]
fn parameters_are_those_published() {
    // Billions: the model cards of gpt-oss and Qwen3 (0.6B to 235B-A22B); 596,049,920 is keras-hub's count of Qwen3 0.6B.
    let published = [
        ("gpt-oss-20b", 20.91, 0.005),
        ("qwen3-0.6b", 0.596_049_920, 1e-12),
        ("qwen3-1.7b", 1.7, 0.05),
        ("qwen3-4b", 4.0, 0.05),
        ("qwen3-8b", 8.2, 0.05),
        ("qwen3-14b", 14.8, 0.05),
        ("qwen3-32b", 32.8, 0.05),
        ("qwen3-235b-a22b", 235.0, 0.5),
    ];
    for (name, billions, tolerance) in published {
        let found = plan(name, request(1_000)).unwrap().weights.parameters as f64 / 1e9;
        assert!((found - billions).abs() <= tolerance, "{name}: {found}");
    }
}

#[test]
fn a_context_past_the_limit_is_refused_with_the_ways_there_are() {
    let error = plan("qwen3-8b", request(40_961)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "qwen3-8b: 40961 tokens are past its context of 40960; documented with --rope-extension: yarn (131072 tokens)"
    );
    let extended = |context, name: &str| {
        plan("qwen3-8b", PlanRequest { rope_extension: Some(name.to_owned()), ..request(context) })
    };
    assert_eq!(extended(131_072, "yarn").unwrap().context_limit, 131_072);
    let PlanError::ContextPastLimit { limit, extensions, .. } = extended(131_073, "yarn").unwrap_err() else {
        panic!("another error")
    };
    assert_eq!((limit, extensions), (131_072, vec![]));
    let error = extended(1_000, "ntk").unwrap_err().to_string();
    assert!(error.contains("no rope extension \"ntk\"") && error.contains("yarn (131072 tokens)"), "{error}");
    let error = plan("gpt-oss-20b", request(131_073)).unwrap_err().to_string();
    assert!(error.ends_with("no rope extension to more is documented"), "{error}");
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    let error = plan("qwen3.5-2b", request(1_000)).unwrap_err().to_string();
    assert!(error.contains("the manifest of qwen3.5-2b") && error.contains("tied_embeddings"), "{error}");
    assert!(matches!(plan("all-minilm-l6-v2", request(100)), Err(PlanError::Encoder { .. })));
    let untold = ModelManifest { weights: None, ..manifest("qwen3-8b") };
    let error = MemoryPlan::of_manifest(&untold, &EngineOptions::default(), &request(100)).unwrap_err();
    assert!(matches!(error, PlanError::NoWeights { .. }));
}

#[test]
fn the_fit_is_the_most_that_memory_takes() {
    let plain = plan("gemma4-e4b-it", request(CONTEXT)).unwrap();
    let fixed = plain.total - plain.sequence;
    let fit = |memory: usize| {
        let request = PlanRequest { memory: Some(memory as u64), ..request(CONTEXT) };
        plan("gemma4-e4b-it", request).unwrap().fit.unwrap()
    };
    for sequences in [1, 2, 7] {
        let memory = fixed + sequences * plain.sequence;
        assert_eq!(fit(memory).sequences, sequences);
        assert_eq!(fit(memory - 1).sequences, sequences - 1);
    }
    // One byte short of one sequence: a shorter one fits, and one token more of it does not.
    for memory in [fixed + plain.sequence - 1, fixed - 1] {
        let short = fit(memory);
        let total = |context| plan("gemma4-e4b-it", request(context)).unwrap().total;
        assert_eq!(short.sequences, 0);
        assert!(
            total(short.longest_context) <= memory && memory < total(short.longest_context + 1),
            "{short:?}"
        );
    }
    assert_eq!(fit(usize::MAX).longest_context, 131_072);
    assert_eq!(fit(plain.weights.in_memory()).longest_context, 0);
    assert_eq!(fit(0).sequences, 0);
}

#[test]
fn every_decoder_with_known_shapes_is_planned() {
    let set = ManifestSet::load(Path::new("/nonexistent/manifests")).unwrap();
    let mut unknown = Vec::new();
    for (manifest, _) in set.iter().filter(|(manifest, _)| !manifest.is_encoder()) {
        let context = usize::try_from(manifest.context_length).unwrap();
        match MemoryPlan::of_manifest(manifest, &EngineOptions::default(), &request(context)) {
            Ok(plan) => {
                let layers: usize = plan.groups.iter().map(|group| group.layers).sum();
                let recurrent = plan.states.map_or(0, |states| states.layers);
                let shared = manifest.shapes.kv_shared_layers.unwrap_or(0) as usize;
                assert_eq!((layers + recurrent + shared) as u64, manifest.shapes.layers.unwrap());
            }
            Err(error) => unknown.push((manifest.name.clone(), error.to_string())),
        }
    }
    // No source of its feed-forward width was read.
    let unknown: Vec<&str> = unknown.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(unknown, ["qwen3.5-2b"]);
}

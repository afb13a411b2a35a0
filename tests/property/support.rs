//! Prompts, engines and the bits of a result.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use longwick::decode::SamplingParams;
use longwick::engine::{
    Engine, EngineOptions, GenerateParams, Request, RequestKind, RequestOutput, SequenceId,
};
use longwick::kv::KvPlan;
use longwick::ops::KvDtype;

/// Checkpoints that are always there.
pub const OWN: [&str; 8] =
    ["llama", "qwen3", "gemma3", "gemma4", "gemma4_keys_are_values", "qwen3_moe", "gpt_oss", "qwen3_5"];

/// Those of them whose cached prefixes may end at any block.
pub const WITHOUT_STATES: [&str; 7] =
    ["llama", "qwen3", "gemma3", "gemma4", "gemma4_keys_are_values", "qwen3_moe", "gpt_oss"];

/// Tokens of the long prompts: past ten spans of 256 keys and every window, and at no edge itself.
pub const LONG: usize = 2_563;

/// Positions on both sides of blocks, spans, and the windows of 41 and 512 tokens.
pub const EDGES: [usize; 15] =
    [0, 15, 16, 40, 41, 255, 256, 511, 512, 513, 1_000, 2_047, 2_048, 2_559, LONG - 1];

/// A xorshift generator, so that prompts are the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// `length` tokens of a vocabulary; the lowest ids are special in all models here and stay out.
pub fn tokens(seed: u64, length: usize, vocab: usize) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..length).map(|_| (3 + random.below(vocab - 3)) as u32).collect()
}

/// The checkpoints of [`OWN`], each with two types of cached keys and values: a type comes up with two of three neighbours.
pub fn own_with_dtypes() -> impl Iterator<Item = (PathBuf, [KvDtype; 2])> {
    let dtypes = |index: usize| [KvDtype::ALL[index % 3], KvDtype::ALL[(index + 1) % 3]];
    OWN.iter().enumerate().map(move |(index, name)| (crate::assets::own_fixture(name), dtypes(index)))
}

/// Options that the tests vary.
pub fn options(kv_dtype: KvDtype, threads: usize, chunk: usize) -> EngineOptions {
    EngineOptions {
        threads: NonZeroUsize::new(threads),
        kv_dtype,
        kv_pool_bytes: Some(256 << 20),
        max_batch_tokens: chunk,
        ..EngineOptions::default()
    }
}

/// The plan of the model's cache under these options, made anew from the public parts.
pub fn plan(engine: &Engine, options: &EngineOptions) -> KvPlan {
    KvPlan::new(&engine.config().layer_kv(), options.block_size, options.kv_dtype).unwrap()
}

/// Tokens of whose multiples a cached prefix ends at one: of blocks, and of snapshots where there are states.
pub fn prefix_unit(engine: &Engine, options: &EngineOptions) -> usize {
    let plan = plan(engine, options);
    if plan.states.is_some() { plan.snapshot_unit() } else { plan.block_size }
}

/// An engine whose pool has exactly as many blocks as `blocks` says of the plan.
pub fn load_with_blocks(
    path: &Path,
    mut options: EngineOptions,
    blocks: impl Fn(&KvPlan) -> usize,
) -> Engine {
    let plan = plan(&crate::assets::load(path, options.clone()), &options);
    let blocks = blocks(&plan);
    options.kv_pool_bytes = Some((blocks * plan.page_bytes) as u64);
    let engine = crate::assets::load(path, options);
    assert_eq!(engine.kv_usage().total, blocks);
    engine
}

pub fn generate(max_tokens: usize) -> GenerateParams {
    GenerateParams { max_tokens, ignore_eos: true, logprobs: true, ..GenerateParams::default() }
}

pub fn sampled(max_tokens: usize, seed: u64) -> GenerateParams {
    let sampling = SamplingParams { temperature: 0.9, top_k: 40, top_p: 0.95, seed };
    GenerateParams { sampling, ..generate(max_tokens) }
}

pub fn greedy_request(prompt: &[u32], max_tokens: usize) -> Request {
    Request::new(prompt.to_vec(), RequestKind::Generate(generate(max_tokens)))
}

pub fn logits_request(prompt: &[u32], positions: &[usize], top: usize) -> Request {
    let positions = positions.iter().copied().filter(|&position| position < prompt.len()).collect();
    Request::new(prompt.to_vec(), RequestKind::Logits { positions, top })
}

/// One request of each kind about `prompt`.
pub fn questions(prompt: &[u32]) -> Vec<Request> {
    let mut positions: Vec<usize> = EDGES.iter().copied().filter(|&edge| edge + 1 < prompt.len()).collect();
    positions.push(prompt.len() - 1);
    let continuations = vec![vec![7], vec![9, 11, 13], (20..39).collect()];
    vec![
        logits_request(prompt, &positions, 50),
        greedy_request(prompt, 40),
        Request::new(prompt.to_vec(), RequestKind::Generate(sampled(24, 5))),
        Request::new(prompt.to_vec(), RequestKind::Score { continuations }),
        Request::new(prompt.to_vec(), RequestKind::Hidden),
    ]
}

/// Everything a result says, floats by their bits.
pub fn bits(output: &RequestOutput) -> Vec<u64> {
    let floats = |values: &[f32]| values.iter().map(|value| u64::from(value.to_bits())).collect::<Vec<_>>();
    let ids = |values: &[u32]| values.iter().map(|&id| u64::from(id)).collect::<Vec<_>>();
    match output {
        RequestOutput::Generated { token_ids, text, finish_reason, logprobs } => {
            let text = text.bytes().map(u64::from).collect();
            [ids(token_ids), text, vec![*finish_reason as u64], floats(logprobs)].concat()
        }
        RequestOutput::Scored(scores) => scores
            .choices
            .iter()
            .flat_map(|choice| [choice.sum.to_bits(), choice.tokens as u64, choice.probability.to_bits()])
            .collect(),
        RequestOutput::Hidden(state) => floats(state),
        RequestOutput::Logits(positions) => positions
            .iter()
            .flat_map(|found| {
                [vec![found.position as u64], ids(&found.ids), floats(&found.logprobs)].concat()
            })
            .collect(),
        RequestOutput::Failed(reason) => panic!("the request failed: {reason}"),
    }
}

pub fn run(engine: &mut Engine, request: &Request) -> Vec<u64> {
    bits(&engine.run(request.clone()).unwrap().output)
}

pub fn run_all(engine: &mut Engine, requests: &[Request]) -> Vec<Vec<u64>> {
    requests.iter().map(|request| run(engine, request)).collect()
}

/// Submits all at once and steps until all are done; results in the order of `requests`.
pub fn run_together(engine: &mut Engine, requests: &[Request]) -> Vec<Vec<u64>> {
    let ids: Vec<SequenceId> =
        requests.iter().map(|request| engine.submit(request.clone()).unwrap()).collect();
    let mut results = vec![None; ids.len()];
    while engine.has_work() {
        for completion in engine.step().unwrap() {
            let place = ids.iter().position(|id| *id == completion.id).expect("an id that was submitted");
            assert!(results[place].replace(bits(&completion.output)).is_none(), "completed twice");
        }
    }
    results.into_iter().map(|result| result.expect("every request completes")).collect()
}

/// What the requests give in an engine of its own without a prefix cache, one at a time, in the largest chunks.
pub fn plain(path: &Path, kv_dtype: KvDtype, requests: &[Request]) -> Vec<Vec<u64>> {
    let options = EngineOptions { prefix_cache: false, ..options(kv_dtype, 1, 512) };
    run_all(&mut crate::assets::load(path, options), requests)
}

/// Asserts equality without printing thousands of numbers.
pub fn assert_same(found: &[Vec<u64>], expected: &[Vec<u64>], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}: length of result {index}");
        let difference = found.iter().zip(expected).position(|(a, b)| a != b);
        assert!(
            difference.is_none(),
            "{what}: result {index} differs at word {difference:?} of {}",
            found.len()
        );
    }
}

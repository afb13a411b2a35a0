//! The same properties on two real GGUF models, with prompts of 2,500 tokens and more.
//!
//! Long prefills are dear here, so that each engine answers several questions about the same prompt.

use std::path::{Path, PathBuf};

use longwick::engine::{Engine, Request, RequestKind, RequestOutput};
use longwick::ops::KvDtype;

use crate::assets;
use crate::support::{
    EDGES, LONG, assert_same, bits, generate, greedy_request, load_with_blocks, logits_request, options, run,
    run_all, sampled, tokens,
};

/// Both vocabularies are larger.
const VOCAB: usize = 49_000;
const NEW: usize = 40;

fn models() -> Vec<PathBuf> {
    ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]
        .iter()
        .filter_map(|name| assets::real_model(name))
        .collect()
}

fn load(path: &Path, dtype: KvDtype, threads: usize, chunk: usize) -> Engine {
    assets::load(path, options(dtype, threads, chunk))
}

/// What the first engine found about a long prompt, in chunks of 512 on two threads.
struct Baseline {
    /// The prompt and the tokens that were generated after it.
    whole: Vec<u32>,
    /// The 50 most likely tokens at the edges of the prompt.
    edges: Vec<u64>,
    logprobs: Vec<f32>,
    generated: Vec<u64>,
}

fn baseline(engine: &mut Engine, prompt: &[u32]) -> Baseline {
    let edges = run(engine, &logits_request(prompt, &EDGES, 50));
    let output = engine.run(greedy_request(prompt, NEW)).unwrap().output;
    let generated = bits(&output);
    let RequestOutput::Generated { token_ids, logprobs, .. } = output else { panic!("{output:?}") };
    Baseline { whole: [prompt, &token_ids[..]].concat(), edges, logprobs, generated }
}

/// Computes prompt and output as one prompt, in other chunks, on one thread, beside other requests.
fn check_prefilled_again(engine: &mut Engine, baseline: &Baseline, what: &str) {
    let mut positions: Vec<usize> = EDGES.to_vec();
    positions.extend(LONG..LONG + NEW - 1);
    let requests = [
        greedy_request(&tokens(91, 90, VOCAB), 12),
        logits_request(&baseline.whole, &positions, 50),
        greedy_request(&tokens(92, 300, VOCAB), 3),
    ];
    let ids: Vec<_> = requests.iter().map(|request| engine.submit(request.clone()).unwrap()).collect();
    let mut found = None;
    while engine.has_work() {
        for completion in engine.step().unwrap() {
            if completion.id == ids[1] {
                // The last token is of no use for what was asked, and a chunk may end before it.
                let least = baseline.whole.len() - 1;
                assert!(completion.cached_tokens == 0 && completion.prefilled_tokens >= least, "{what}");
                found = Some(completion.output);
            }
        }
    }
    let Some(RequestOutput::Logits(found)) = found else { panic!("{found:?}") };
    let (edges, generated) = found.split_at(EDGES.len());
    assert_same(&[bits(&RequestOutput::Logits(edges.to_vec()))], std::slice::from_ref(&baseline.edges), what);
    let last = edges.last().into_iter().chain(generated);
    for ((found, logprob), &token) in last.zip(&baseline.logprobs).zip(&baseline.whole[LONG..]) {
        assert_eq!(found.ids[0], token, "{what}: greedy token after {}", found.position);
        assert_eq!(found.logprobs[0].to_bits(), logprob.to_bits(), "{what}: position {}", found.position);
    }
}

/// Forks at the end, in the middle of a block, and at its edge, each going on as the history did.
fn check_forks(engine: &mut Engine, baseline: &Baseline, what: &str) {
    let prompt = &baseline.whole[..LONG];
    let session = engine.open_session(&prompt[..LONG - 20]).unwrap();
    for at in [LONG - 20, 2_003, 1_536] {
        let branch = engine.fork_session(&session, at).unwrap();
        engine.extend_session(&branch, &prompt[at..]).unwrap();
        let found = bits(&engine.generate_on(&branch, generate(NEW)).unwrap().output);
        assert_same(&[found], std::slice::from_ref(&baseline.generated), &format!("{what}, fork at {at}"));
        engine.close_session(branch);
    }
    engine.close_session(session);
    assert_eq!(engine.kv_usage().referenced, 0, "{what}");
}

fn check_long_prompt(path: &Path, dtype: KvDtype) {
    let prompt = tokens(90, LONG, VOCAB);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut engine = load(path, dtype, 2, 512);
    let baseline = baseline(&mut engine, &prompt);
    drop(engine);
    let mut engine = load(path, dtype, 1, 300);
    check_prefilled_again(&mut engine, &baseline, &format!("{name}, {dtype:?}, prefilled again"));
    if dtype == KvDtype::F32 {
        // A shorter prompt leaves a prefix that all that follows builds on; only what lies behind it is computed.
        engine = load(path, dtype, 2, 64);
        engine.run(greedy_request(&prompt[..1_100], 1)).unwrap();
    }
    check_forks(&mut engine, &baseline, &format!("{name}, {dtype:?}"));
}

#[test]
fn long_prompt_with_f32_cache() {
    for path in models() {
        check_long_prompt(&path, KvDtype::F32);
    }
}

#[test]
fn long_prompt_with_narrower_caches() {
    for (path, dtype) in models().iter().zip([KvDtype::Bf16, KvDtype::Fp8]) {
        check_long_prompt(path, dtype);
    }
}

/// Small chunks, past one span and, for Gemma, past the window of 512.
#[test]
fn small_chunks() {
    const SHORT: usize = 530;
    let prompt = tokens(93, SHORT, VOCAB);
    let requests = [
        logits_request(&prompt, &[0, 15, 16, 255, 256, 511, 512, 513, SHORT - 1], 50),
        greedy_request(&prompt, 8),
        Request::new(prompt.clone(), RequestKind::Generate(sampled(8, 4))),
    ];
    for path in models() {
        let expected = run_all(&mut load(&path, KvDtype::F32, 2, 512), &requests);
        for (threads, chunk) in [(2, 7), (1, 16)] {
            let found = run_all(&mut load(&path, KvDtype::F32, threads, chunk), &requests);
            let what = format!("{}, {threads} threads, chunks of {chunk}", path.display());
            assert_same(&found, &expected, &what);
        }
    }
}

/// Two outputs share a long prefix when an older session grows and takes their blocks: both are computed again.
#[test]
fn preemption() {
    const CHUNK: usize = 128;
    let history = tokens(94, 2_500, VOCAB);
    let requests =
        [95, 96].map(|seed| greedy_request(&[&history[..], &tokens(seed, 33, VOCAB)[..]].concat(), NEW));
    for path in models() {
        let what = path.display().to_string();
        let mut engine = load(&path, KvDtype::F32, 2, 512);
        let expected = run_all(&mut engine, &requests);
        drop(engine);
        // The first request needs a whole history; the second shares it, and needs a tail and a chunk of its own.
        let mut engine = load_with_blocks(&path, options(KvDtype::F32, 2, CHUNK), |plan| {
            let windows = plan.groups.iter().filter(|group| group.window.is_some()).count();
            plan.blocks_held(2_533 + NEW, CHUNK) + 8 * plan.groups.len() + 6 * windows
        });
        let session = engine.open_session(&tokens(97, 10, VOCAB)).unwrap();
        let ids = requests.clone().map(|request| engine.submit(request).unwrap());
        while engine.stats().generated_tokens < 12 {
            assert!(engine.step().unwrap().is_empty(), "{what}: outputs of {NEW} tokens end later");
        }
        engine.extend_session(&session, &tokens(98, 600, VOCAB)).unwrap();
        assert!(engine.stats().preemptions > 0, "{what}: nothing was preempted");
        engine.close_session(session);
        let mut found = Vec::new();
        while engine.has_work() {
            found.extend(engine.step().unwrap());
        }
        found.sort_by_key(|completion| completion.id);
        assert_eq!(found.iter().map(|completion| completion.id).collect::<Vec<_>>(), ids, "{what}");
        let found: Vec<_> = found.iter().map(|completion| bits(&completion.output)).collect();
        assert_same(&found, &expected, &what);
        assert_eq!(engine.kv_usage().referenced, 0, "{what}");
    }
}

//! Random schedules: requests that share prefixes, submitted, stepped and cancelled in any order, over small pools.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use longwick::engine::{Engine, EngineOptions, Request, RequestKind, SequenceId};
use longwick::ops::KvDtype;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::assets;
use crate::drawn::{SHAPES, drawn_fixture};
use crate::support::{OWN, WITHOUT_STATES, bits, generate, load_with_blocks, options, plan, sampled, tokens};

const VOCAB: usize = 259;
const BLOCK: usize = 16;
/// Longest prompt and output a schedule asks for.
const LONGEST: usize = 170 + 30 + 160;

/// A prompt: the beginning of one of three histories, and a tail of its own.
#[derive(Debug, Clone)]
struct Prompt {
    history: u64,
    shared: usize,
    tail: usize,
    seed: u64,
}

impl Prompt {
    fn tokens(&self) -> Vec<u32> {
        let history = tokens(100 + self.history, 170, VOCAB);
        [&history[..self.shared], &tokens(200 + self.seed, self.tail, VOCAB)[..]].concat()
    }
}

#[derive(Debug, Clone)]
enum Kind {
    Greedy(usize),
    Sampled(usize),
    Score,
    Logits,
}

#[derive(Debug, Clone)]
enum Action {
    Submit(Prompt, Kind),
    Step(usize),
    Cancel(usize),
}

/// How the engine of a schedule is set up.
#[derive(Debug, Clone)]
struct Setting {
    chunk: usize,
    max_sequences: usize,
    prefix_cache: bool,
    /// Blocks beyond what the longest request needs; `None`: a pool for everything.
    spare_blocks: Option<usize>,
    /// State slots beyond what one sequence needs, for models that have states.
    spare_slots: usize,
}

fn prompt() -> impl Strategy<Value = Prompt> {
    (0_u64..3, 0_usize..=170, 1_usize..=30, 0_u64..6).prop_map(|(history, shared, tail, seed)| Prompt {
        history,
        shared,
        tail,
        seed,
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => (1_usize..12).prop_map(Kind::Greedy),
        1 => (140_usize..=160).prop_map(Kind::Greedy),
        1 => (1_usize..12).prop_map(Kind::Sampled),
        1 => Just(Kind::Score),
        1 => Just(Kind::Logits),
    ]
}

fn schedule() -> impl Strategy<Value = (Setting, Vec<Action>)> {
    let action = prop_oneof![
        4 => (prompt(), kind()).prop_map(|(prompt, kind)| Action::Submit(prompt, kind)),
        3 => (1_usize..8).prop_map(Action::Step),
        1 => any::<usize>().prop_map(Action::Cancel),
    ];
    let chunk = prop_oneof![Just(1_usize), Just(7), Just(16), Just(64), Just(300)];
    let sequences = prop_oneof![Just(1_usize), Just(2), Just(32)];
    let spare = prop_oneof![3 => (0_usize..24).prop_map(Some), 1 => Just(None)];
    let setting = (chunk, sequences, any::<bool>(), spare, 0_usize..12).prop_map(
        |(chunk, max_sequences, prefix_cache, spare_blocks, spare_slots)| Setting {
            chunk,
            max_sequences,
            prefix_cache,
            spare_blocks,
            spare_slots,
        },
    );
    (setting, vec(action, 2..22))
}

fn request(prompt: &Prompt, kind: &Kind) -> Request {
    let tokens = prompt.tokens();
    let kind = match kind {
        Kind::Greedy(max_tokens) => RequestKind::Generate(generate(*max_tokens)),
        Kind::Sampled(max_tokens) => RequestKind::Generate(sampled(*max_tokens, prompt.seed)),
        Kind::Score => {
            RequestKind::Score { continuations: vec![vec![4, 5, 6], vec![8], (10..30).collect(), vec![9, 9]] }
        }
        Kind::Logits => {
            let mut positions = vec![tokens.len() / 3, tokens.len() / 2, tokens.len() - 1];
            positions.dedup();
            RequestKind::Logits { positions, top: 20 }
        }
    };
    Request { boundaries: vec![prompt.shared], ..Request::new(tokens, kind) }
}

fn engine(path: &std::path::Path, setting: &Setting) -> Engine {
    let mut options = EngineOptions {
        max_sequences: setting.max_sequences,
        prefix_cache: setting.prefix_cache,
        snapshot_tokens: 64,
        ..options(KvDtype::F32, 1, setting.chunk)
    };
    let plan = plan(&assets::load(path, options.clone()), &options);
    options.state_pool_bytes =
        plan.states.map(|states| ((plan.slots_held() + setting.spare_slots) * states.slot_bytes()) as u64);
    match setting.spare_blocks {
        None => assets::load(path, options),
        Some(spare) => {
            load_with_blocks(path, options, |plan| plan.blocks_held(LONGEST, setting.chunk) + spare)
        }
    }
}

/// Runs a schedule to its end; what every request that was not cancelled gave.
fn run_schedule(engine: &mut Engine, actions: &[Action]) -> Result<Vec<(Request, Vec<u64>)>, TestCaseError> {
    let fail = |reason: String| TestCaseError::fail(reason);
    let mut submitted: Vec<(SequenceId, Request)> = Vec::new();
    let mut cancelled = HashSet::new();
    let mut results = HashMap::new();
    let mut step = |engine: &mut Engine, cancelled: &HashSet<SequenceId>| {
        for completion in engine.step().map_err(|error| fail(error.to_string()))? {
            if cancelled.contains(&completion.id) {
                return Err(fail(format!("{:?} completed after it was cancelled", completion.id)));
            }
            if results.insert(completion.id, bits(&completion.output)).is_some() {
                return Err(fail(format!("{:?} completed twice", completion.id)));
            }
        }
        Ok(results.len())
    };
    for action in actions {
        match action {
            Action::Submit(prompt, kind) => {
                let request = request(prompt, kind);
                let id = engine.submit(request.clone()).map_err(|error| fail(error.to_string()))?;
                submitted.push((id, request));
            }
            Action::Step(times) => {
                for _ in 0..*times {
                    step(engine, &cancelled)?;
                }
            }
            Action::Cancel(which) if !submitted.is_empty() => {
                let id = submitted[which % submitted.len()].0;
                engine.cancel(id);
                cancelled.insert(id);
            }
            Action::Cancel(_) => {}
        }
    }
    let mut steps = 0;
    while engine.has_work() {
        step(engine, &cancelled)?;
        steps += 1;
        if steps > 200_000 {
            return Err(fail("the engine does not come to an end".to_owned()));
        }
    }
    let mut outcomes = Vec::new();
    for (id, request) in submitted {
        match results.remove(&id) {
            Some(result) => outcomes.push((request, result)),
            None if cancelled.contains(&id) => {}
            None => return Err(fail(format!("{id:?} never completed"))),
        }
    }
    Ok(outcomes)
}

#[test]
fn random_schedules() {
    let preemptions = RefCell::new(0);
    let drawn = SHAPES.iter().map(|name| (drawn_fixture(name), 6));
    for (path, cases) in OWN.map(|name| (assets::own_fixture(name), 24)).into_iter().chain(drawn) {
        // Repeated questions are answered from memory, so that this engine computes each of them once.
        let solo = EngineOptions { prefix_cache: false, ..options(KvDtype::F32, 1, 512) };
        let solo = RefCell::new(assets::load(&path, solo));
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(
            config,
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let outcome = runner.run(&schedule(), |(setting, actions)| {
            let mut engine = engine(&path, &setting);
            for (request, found) in run_schedule(&mut engine, &actions)? {
                let expected = bits(&solo.borrow_mut().run(request.clone()).unwrap().output);
                if found != expected {
                    return Err(TestCaseError::fail(format!("{request:?} gave another result than alone")));
                }
            }
            let usage = engine.kv_usage();
            if usage.referenced != 0 || usage.free + usage.evictable != usage.total {
                return Err(TestCaseError::fail(format!("blocks are lost at the end: {usage:?}")));
            }
            let usage = engine.state_usage();
            if usage.referenced != 0 || usage.free + usage.evictable != usage.total {
                return Err(TestCaseError::fail(format!("state slots are lost at the end: {usage:?}")));
            }
            *preemptions.borrow_mut() += engine.stats().preemptions;
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{}: {error}", path.display());
        }
    }
    let preemptions = preemptions.into_inner();
    assert!(preemptions > 0, "no schedule preempted anything");
    println!("{preemptions} preemptions");
}

/// The least number of prompt tokens that can be computed for these prompts with whole blocks shared: of each prompt
/// the blocks before its last token once, and what is left of it every time.
fn least_prefill(prompts: &[Vec<u32>]) -> usize {
    let mut blocks = HashSet::new();
    let mut tails = 0;
    for prompt in prompts {
        let whole = (prompt.len() - 1) / BLOCK * BLOCK;
        for end in (BLOCK..=whole).step_by(BLOCK) {
            blocks.insert(&prompt[..end]);
        }
        tails += prompt.len() - whole;
    }
    blocks.len() * BLOCK + tails
}

#[test]
fn prefill_is_the_least_with_a_large_pool() {
    for path in WITHOUT_STATES.map(assets::own_fixture) {
        let strategy =
            (vec((prompt(), 1_usize..9, 0_usize..3), 1..14), prop_oneof![Just(7_usize), Just(64), Just(300)]);
        let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(
            config,
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let outcome = runner.run(&strategy, |(requests, chunk)| {
            let mut engine = assets::load(&path, options(KvDtype::F32, 1, chunk));
            let mut distinct = HashSet::new();
            let mut computed = 0;
            for (prompt, max_tokens, steps) in &requests {
                distinct.insert((prompt.tokens(), *max_tokens));
                engine.submit(request(prompt, &Kind::Greedy(*max_tokens))).unwrap();
                for _ in 0..*steps {
                    computed +=
                        engine.step().unwrap().iter().map(|done| done.prefilled_tokens).sum::<usize>();
                }
            }
            while engine.has_work() {
                computed += engine.step().unwrap().iter().map(|done| done.prefilled_tokens).sum::<usize>();
            }
            let prompts: Vec<Vec<u32>> = distinct.into_iter().map(|(prompt, _)| prompt).collect();
            let least = least_prefill(&prompts);
            let counted = engine.stats().prefilled_tokens as usize;
            if (counted, computed) != (least, least) {
                let reason =
                    format!("{counted} tokens computed, {computed} by the completions, least is {least}");
                return Err(TestCaseError::fail(reason));
            }
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{}: {error}", path.display());
        }
    }
}

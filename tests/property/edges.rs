//! What the engine refuses, and what happens at its limits.

use longwick::decode::{Grammar, SamplingParams};
use longwick::engine::{
    Engine, EngineError, EngineOptions, FinishReason, GenerateParams, GrammarStart, Request, RequestKind,
    RequestOutput,
};
use longwick::ops::KvDtype;

use crate::assets;
use crate::support::{
    bits, generate, greedy_request, load_with_blocks, logits_request, options, run, sampled, tokens,
};

const VOCAB: usize = 259;

fn engine() -> Engine {
    assets::load(&assets::own_fixture("qwen3"), options(KvDtype::F32, 1, 128))
}

fn refusal(engine: &mut Engine, prompt: &[u32], kind: RequestKind) -> EngineError {
    match engine.submit(Request::new(prompt.to_vec(), kind)) {
        Ok(id) => panic!("accepted as {id:?}"),
        Err(error) => {
            assert!(!engine.has_work(), "a refused request leaves nothing behind");
            error
        }
    }
}

#[test]
fn a_prompt_past_the_context_is_refused_with_the_numbers() {
    let mut engine = engine();
    let limit = engine.context_length();
    let error = refusal(&mut engine, &tokens(1, limit, VOCAB), RequestKind::Generate(generate(1)));
    assert!(
        matches!(error, EngineError::ContextExceeded { prompt, limit: said } if (prompt, said) == (limit, limit)),
        "{error:?}"
    );
    assert!(error.to_string().contains(&limit.to_string()), "{error}");
    let score = RequestKind::Score { continuations: vec![vec![1], vec![2; 12]] };
    let error = refusal(&mut engine, &tokens(1, limit - 10, VOCAB), score);
    assert!(matches!(error, EngineError::ContextExceeded { .. }), "{error:?}");
    let error = engine.open_session(&tokens(1, limit + 1, VOCAB)).unwrap_err();
    assert!(matches!(error, EngineError::ContextExceeded { .. }), "{error:?}");
    assert_eq!(engine.kv_usage().referenced, 0);
}

#[test]
fn the_contexts_end_cuts_an_output_off() {
    let mut engine = engine();
    let prompt = tokens(2, engine.context_length() - 3, VOCAB);
    let output = engine.run(greedy_request(&prompt, 50)).unwrap().output;
    let RequestOutput::Generated { token_ids, finish_reason, .. } = output else { panic!("{output:?}") };
    assert_eq!((token_ids.len(), finish_reason), (3, FinishReason::Length));
    // The last position of a full context has logits too.
    let whole = [&prompt[..], &token_ids[..]].concat();
    assert_eq!(whole.len(), engine.context_length());
    run(&mut engine, &logits_request(&whole, &[whole.len() - 1], 5));
}

#[test]
fn a_pool_too_small_is_refused_with_the_numbers() {
    let path = assets::own_fixture("llama");
    let mut engine = load_with_blocks(&path, options(KvDtype::F32, 1, 32), |plan| plan.blocks_held(320, 32));
    let error = refusal(&mut engine, &tokens(3, 400, VOCAB), RequestKind::Generate(generate(1)));
    match error {
        EngineError::PoolTooSmall { tokens, needed, total } => {
            assert_eq!((tokens, total), (401, engine.kv_usage().total));
            assert!(needed > total);
        }
        other => panic!("{other:?}"),
    }
    engine.run(greedy_request(&tokens(3, 300, VOCAB), 10)).unwrap();
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let path = assets::own_fixture("llama");
    let base = options(KvDtype::F32, 1, 64);
    for (wrong, names) in [
        (EngineOptions { max_batch_tokens: 0, ..base.clone() }, "max_batch_tokens"),
        (EngineOptions { max_sequences: 0, ..base.clone() }, "max_sequences"),
        (EngineOptions { block_size: 24, ..base.clone() }, "block_size"),
        (EngineOptions { block_size: 0, ..base.clone() }, "block_size"),
        (EngineOptions { kv_pool_bytes: Some(1_000), ..base.clone() }, "kv_pool_bytes"),
    ] {
        let error = Engine::load(&path, wrong, &mut |_, _| {}).err().expect("refused");
        assert!(error.to_string().contains(names), "{error}");
    }
}

#[test]
fn malformed_requests_are_refused() {
    let mut engine = engine();
    let prompt = tokens(4, 20, VOCAB);
    let logits = |positions: Vec<usize>| RequestKind::Logits { positions, top: 5 };
    let score = |continuations: Vec<Vec<u32>>| RequestKind::Score { continuations };
    let past = VOCAB as u32;
    for (prompt, kind) in [
        (&prompt[..0], RequestKind::Generate(generate(1))),
        (&prompt[..], RequestKind::Generate(generate(0))),
        (&[5, past, 6][..], RequestKind::Generate(generate(1))),
        (&prompt[..], score(vec![])),
        (&prompt[..], score(vec![vec![1], vec![]])),
        (&prompt[..], score(vec![vec![1, past]])),
        (&prompt[..], logits(vec![])),
        (&prompt[..], logits(vec![20])),
        (&prompt[..], logits(vec![3, 3])),
        (&prompt[..], logits(vec![4, 3])),
    ] {
        let error = refusal(&mut engine, prompt, kind);
        assert!(matches!(error, EngineError::InvalidRequest(_)), "{error:?}");
    }
    let error = refusal(&mut engine, &[5, past, 6], RequestKind::Generate(generate(1)));
    assert!(error.to_string().contains("259"), "{error}");
    for sampling in [
        SamplingParams { temperature: -1.0, ..SamplingParams::default() },
        SamplingParams { temperature: f32::NAN, ..SamplingParams::default() },
        SamplingParams { top_p: 0.0, ..SamplingParams::default() },
        SamplingParams { top_p: 1.5, ..SamplingParams::default() },
    ] {
        let params = GenerateParams { sampling, ..generate(3) };
        refusal(&mut engine, &prompt, RequestKind::Generate(params));
    }
}

/// A model without a tokenizer cannot follow a grammar, and says so instead of leaving it out.
#[test]
fn a_grammar_without_a_tokenizer_is_refused() {
    let mut engine = engine();
    let grammar = Some((Grammar::Choice(vec!["a".to_owned()]), GrammarStart::Immediately));
    let params = GenerateParams { grammar, ..generate(3) };
    let error = refusal(&mut engine, &tokens(5, 10, VOCAB), RequestKind::Generate(params));
    assert!(matches!(error, EngineError::NoTokenizer { .. }), "{error:?}");
    assert!(engine.tokenizer().is_err() && engine.template().is_err());
}

#[test]
fn seeded_sampling_depends_on_the_seed_alone() {
    let prompt = tokens(6, 60, VOCAB);
    let request = |seed| Request::new(prompt.clone(), RequestKind::Generate(sampled(30, seed)));
    let first = run(&mut engine(), &request(1));
    let mut busy = engine();
    busy.submit(greedy_request(&tokens(7, 200, VOCAB), 60)).unwrap();
    busy.submit(request(2)).unwrap();
    assert_eq!(run(&mut busy, &request(1)), first, "the batch must not matter");
    assert_ne!(run(&mut engine(), &request(2)), first, "another seed draws other tokens");
}

#[test]
fn identical_requests_run_once() {
    let mut engine = engine();
    let request = greedy_request(&tokens(8, 90, VOCAB), 12);
    let ids: Vec<_> = (0..3).map(|_| engine.submit(request.clone()).unwrap()).collect();
    let mut completions = Vec::new();
    while engine.has_work() {
        completions.extend(engine.step().unwrap());
    }
    completions.sort_by_key(|completion| completion.id);
    assert_eq!(completions.iter().map(|completion| completion.id).collect::<Vec<_>>(), ids);
    assert!(completions.iter().all(|completion| bits(&completion.output) == bits(&completions[0].output)));
    assert_eq!((engine.stats().shared_requests, engine.stats().prefilled_tokens), (2, 90));
    let prefilled: Vec<_> = completions.iter().map(|completion| completion.prefilled_tokens).collect();
    assert_eq!(prefilled, [90, 0, 0]);
    // And once more after it is done.
    let again = engine.run(request).unwrap();
    assert_eq!(bits(&again.output), bits(&completions[0].output));
    assert_eq!((engine.stats().shared_requests, engine.stats().generated_tokens), (3, 12));
}

#[test]
fn cancelling_gives_blocks_back_and_nothing_else() {
    let mut engine = engine();
    let other = greedy_request(&tokens(9, 150, VOCAB), 30);
    let expected = run(&mut self::engine(), &other);
    let doomed = engine.submit(greedy_request(&tokens(10, 500, VOCAB), 30)).unwrap();
    let scored = RequestKind::Score { continuations: vec![vec![1; 40], vec![2; 50]] };
    let forked = engine.submit(Request::new(tokens(11, 20, VOCAB), scored)).unwrap();
    let kept = engine.submit(other).unwrap();
    for _ in 0..6 {
        engine.step().unwrap();
    }
    engine.cancel(doomed);
    engine.cancel(forked);
    let mut found = Vec::new();
    while engine.has_work() {
        found.extend(engine.step().unwrap());
    }
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, bits(&found[0].output)), (kept, expected));
    assert_eq!(engine.kv_usage().referenced, 0);
}

/// Whoever asked first may leave; those who asked the same still get their answer.
#[test]
fn cancelling_one_of_identical_requests_leaves_the_others() {
    let request = greedy_request(&tokens(12, 90, VOCAB), 12);
    let expected = run(&mut engine(), &request);
    for cancelled in 0..3 {
        for steps in [0, 2] {
            let mut engine = engine();
            let ids: Vec<_> = (0..3).map(|_| engine.submit(request.clone()).unwrap()).collect();
            for _ in 0..steps {
                engine.step().unwrap();
            }
            engine.cancel(ids[cancelled]);
            let mut found = Vec::new();
            while engine.has_work() {
                found.extend(engine.step().unwrap());
            }
            found.sort_by_key(|completion| completion.id);
            let got: Vec<_> = found.iter().map(|completion| completion.id).collect();
            let others: Vec<_> = ids.iter().copied().filter(|id| *id != ids[cancelled]).collect();
            assert_eq!(got, others, "request {cancelled} cancelled after {steps} steps");
            assert!(found.iter().all(|completion| bits(&completion.output) == expected));
            assert_eq!(engine.kv_usage().referenced, 0);
        }
    }
}

/// A completion that waits to be fetched survives whatever else happens, and a cancelled one never comes.
#[test]
fn finished_completions_are_delivered_once() {
    let mut engine = engine();
    let request = greedy_request(&tokens(13, 30, VOCAB), 4);
    let expected = run(&mut engine, &request);
    let session = engine.open_session(&tokens(14, 20, VOCAB)).unwrap();
    let waiting = engine.submit(request.clone()).unwrap();
    engine.extend_session(&session, &[]).unwrap();
    let cancelled = engine.submit(request).unwrap();
    engine.cancel(cancelled);
    assert!(engine.has_work());
    let found = engine.step().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, bits(&found[0].output)), (waiting, expected));
}

#[test]
fn sessions_that_hold_the_pool_are_named() {
    let path = assets::own_fixture("llama");
    let mut engine = load_with_blocks(&path, options(KvDtype::F32, 1, 64), |plan| plan.blocks_held(640, 64));
    let session = engine.open_session(&tokens(15, 500, VOCAB)).unwrap();
    let request = greedy_request(&tokens(16, 300, VOCAB), 10);
    let id = engine.submit(request.clone()).unwrap();
    match engine.step() {
        Err(EngineError::PoolHeldBySessions { resource: "blocks", needed, available, total }) => {
            assert!(needed > available && available < total && total == engine.kv_usage().total);
        }
        other => panic!("{other:?}"),
    }
    // A session that wants more than is left is refused too, and stays as it is.
    match engine.extend_session(&session, &tokens(17, 140, VOCAB)) {
        Ok(()) => {}
        Err(error) => panic!("140 tokens more fit: {error}"),
    }
    let other = engine.fork_session(&session, 640).unwrap();
    let error = engine.extend_session(&other, &tokens(18, 100, VOCAB)).unwrap_err();
    assert!(matches!(error, EngineError::PoolTooSmall { .. }), "{error:?}");
    assert_eq!(engine.session_tokens(&other).unwrap().len(), 640);
    engine.close_session(other);
    // Given back, the request that waited runs.
    engine.close_session(session);
    let mut found = Vec::new();
    while engine.has_work() {
        found.extend(engine.step().unwrap());
    }
    assert_eq!(found.len(), 1);
    let alone = run(&mut assets::load(&path, options(KvDtype::F32, 1, 64)), &request);
    assert_eq!((found[0].id, bits(&found[0].output)), (id, alone));
}

/// Two sessions fill the pool; one of them wants more. That is no defect of the scheduler, and nothing is lost.
#[test]
fn a_session_that_cannot_grow_stays_as_it_is() {
    let path = assets::own_fixture("llama");
    let mut engine = load_with_blocks(&path, options(KvDtype::F32, 1, 64), |plan| plan.blocks_held(640, 64));
    let first = engine.open_session(&tokens(19, 300, VOCAB)).unwrap();
    let second = engine.open_session(&tokens(20, 300, VOCAB)).unwrap();
    let error = engine.extend_session(&second, &tokens(21, 200, VOCAB)).unwrap_err();
    assert!(matches!(error, EngineError::PoolHeldBySessions { .. }), "{error:?}");
    assert_eq!(engine.session_tokens(&second).unwrap(), tokens(20, 300, VOCAB));
    assert!(!engine.has_work());
    let error = engine.open_session(&tokens(22, 300, VOCAB)).unwrap_err();
    assert!(matches!(error, EngineError::PoolHeldBySessions { .. }), "{error:?}");
    assert!(!engine.has_work());
    engine.close_session(first);
    engine.extend_session(&second, &tokens(21, 200, VOCAB)).unwrap();
    assert_eq!(engine.session_tokens(&second).unwrap().len(), 500);
    engine.close_session(second);
    assert_eq!(engine.kv_usage().referenced, 0);
}

#[test]
fn closed_sessions_and_forks_past_the_end_are_refused() {
    let mut engine = engine();
    let session = engine.open_session(&tokens(23, 40, VOCAB)).unwrap();
    let error = engine.fork_session(&session, 41).unwrap_err();
    assert!(matches!(error, EngineError::InvalidRequest(_)), "{error:?}");
    let error = engine.extend_session(&session, &[VOCAB as u32]).unwrap_err();
    assert!(matches!(error, EngineError::InvalidRequest(_)), "{error:?}");
    let mut another = self::engine();
    let error = another.generate_on(&session, generate(1)).unwrap_err();
    assert!(matches!(error, EngineError::UnknownSession(_)), "{error:?}");
}

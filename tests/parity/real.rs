//! Two real GGUF models against HF transformers, which ran their dequantised weights in f32.

use std::collections::HashMap;

use longwick::engine::{GenerateParams, Request, RequestKind, RequestOutput};
use serde::Deserialize;

use crate::assets;

/// How far a log-probability may lie from the reference's.
const TOLERANCE: f64 = 0.02;

#[derive(Deserialize)]
struct Reference {
    gguf: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    token_ids: Vec<u32>,
    top20_ids: Vec<u32>,
    top20_logprobs: Vec<f64>,
    greedy_24: Option<Vec<u32>>,
}

fn check(name: &str) {
    let Some(path) = assets::shared_data(&format!("logits/{name}.json")) else { return };
    let reference: Reference = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let Some(model) = assets::real_model(&reference.gguf) else { return };
    assert!(!reference.cases.is_empty());
    let mut engine = assets::load(&model, crate::options(1 << 30));
    for case in &reference.cases {
        let at = format!("{name}, {} tokens", case.token_ids.len());
        // More than twenty are asked for: a token at the edge may have changed places with the next.
        let kind = RequestKind::Logits { positions: vec![case.token_ids.len() - 1], top: 64 };
        let output = engine.run(Request::new(case.token_ids.clone(), kind)).unwrap().output;
        let RequestOutput::Logits(found) = output else { panic!("{at}: {output:?}") };
        let ours: HashMap<u32, f32> =
            found[0].ids.iter().copied().zip(found[0].logprobs.iter().copied()).collect();
        assert_eq!(case.top20_ids.len(), 20, "{at}");
        let mut worst = 0.0_f64;
        for (id, &expected) in case.top20_ids.iter().zip(&case.top20_logprobs) {
            let Some(&logprob) = ours.get(id) else {
                panic!("{at}: token {id} is not among our 64 most likely")
            };
            worst = worst.max((f64::from(logprob) - expected).abs());
        }
        println!("{at}: largest difference {worst:.4}");
        assert!(worst <= TOLERANCE, "{at}: a log-probability is off by {worst}");
        if let Some(greedy) = &case.greedy_24 {
            let params =
                GenerateParams { max_tokens: greedy.len(), ignore_eos: true, ..GenerateParams::default() };
            let request = Request::new(case.token_ids.clone(), RequestKind::Generate(params));
            let output = engine.run(request).unwrap().output;
            let RequestOutput::Generated { token_ids, .. } = output else { panic!("{at}: {output:?}") };
            assert_eq!(&token_ids, greedy, "{at}: greedy tokens");
        }
    }
}

#[test]
fn smollm2_in_q4_1() {
    check("smollm2-135m-q4_1");
}

#[test]
fn gemma3_in_q4_k_m() {
    check("gemma3-270m-q4_k_m");
}

//! What HF transformers computed in f32 for a checkpoint, beside which it lies.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// How far a log-probability may lie from the reference's.
pub const TOLERANCE: f64 = 5e-4;

#[derive(Deserialize)]
struct Reference {
    cases: Vec<Case>,
}

/// A prompt, and what comes of it.
#[derive(Deserialize)]
pub struct Case {
    pub token_ids: Vec<u32>,
    /// Raw logits after the last token.
    pub last_logits: Vec<f64>,
    /// The five largest raw logits at some positions.
    pub positions: BTreeMap<String, Top>,
    pub greedy_16: Vec<u32>,
}

#[derive(Deserialize)]
pub struct Top {
    pub ids: Vec<u32>,
    pub logits: Vec<f64>,
}

/// The cases of a checkpoint's folder.
pub fn cases(folder: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(folder.join("reference.json")).unwrap();
    let reference: Reference = serde_json::from_str(&text).unwrap();
    assert!(!reference.cases.is_empty(), "{}: no cases", folder.display());
    reference.cases
}

pub fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = max + logits.iter().map(|logit| (logit - max).exp()).sum::<f64>().ln();
    logits.iter().map(|logit| logit - total).collect()
}

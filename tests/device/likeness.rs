//! How alike the next tokens of a model are under two settings.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use longwick::engine::{Engine, EngineOptions, PositionLogprobs, Request, RequestKind, RequestOutput};
use longwick::tokenizer::SpecialTokens;

/// Of each position's most likely tokens so many are compared.
const TOP: usize = 500;

/// The most likely tokens after each of the first `tokens` tokens of a text.
pub fn next_tokens(
    model: &Path,
    text: &str,
    tokens: usize,
    options: EngineOptions,
) -> Result<Vec<PositionLogprobs>, Box<dyn std::error::Error>> {
    let mut engine = Engine::load(model, options, &mut |_, _| {})?;
    let prompt = engine.tokenizer()?.encode_whole(text, SpecialTokens::AsText, tokens)?.ids;
    let positions = (0..prompt.len()).collect();
    match engine.run(Request::new(prompt, RequestKind::Logits { positions, top: TOP }))?.output {
        RequestOutput::Logits(found) => Ok(found),
        other => Err(format!("{other:?}").into()),
    }
}

/// What a text's positions have in common.
pub struct Likeness {
    tokens: usize,
    /// Mean KL divergence in nats a token, at least.
    pub divergence: f64,
    /// Share of positions whose most likely token is the same.
    pub same: f64,
}

impl Likeness {
    /// Of `found` to `exact`, which have the same positions.
    pub fn new(exact: &[PositionLogprobs], found: &[PositionLogprobs]) -> Self {
        assert_eq!(exact.len(), found.len(), "positions");
        let pairs = || exact.iter().zip(found);
        let same = pairs().filter(|(exact, found)| exact.ids[0] == found.ids[0]).count();
        let divergence: f64 = pairs().map(|(exact, found)| divergence(exact, found)).sum();
        let tokens = exact.len();
        Self { tokens, divergence: (divergence / tokens as f64).max(0.0), same: same as f64 / tokens as f64 }
    }
}

impl fmt::Display for Likeness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tokens, divergence, same } = self;
        let same = 100.0 * same;
        write!(
            out,
            "{tokens} tokens: KL divergence {divergence:.6} nats a token, the same most likely token {same:.2} %"
        )
    }
}

/// At least the KL divergence of all tokens: the sum of p (ln p - ln q), those that p does not list taken together.
///
/// Every q is the greatest that it can be: that of a token which q does not list is the least of the listed, and what p does not list
/// has all but the tokens that both do.
fn divergence(p: &PositionLogprobs, q: &PositionLogprobs) -> f64 {
    const LEAST: f64 = 1e-9;
    let of_q: HashMap<u32, f64> =
        q.ids.iter().copied().zip(q.logprobs.iter().map(|&q| f64::from(q))).collect();
    let least_of_q = f64::from(q.logprobs[q.logprobs.len() - 1]);
    let (mut listed_by_p, mut listed_by_both, mut sum) = (0.0, 0.0, 0.0);
    for (&id, &logprob) in p.ids.iter().zip(&p.logprobs) {
        let logprob = f64::from(logprob);
        listed_by_p += logprob.exp();
        listed_by_both += of_q.get(&id).map_or(0.0, |q| q.exp());
        sum += logprob.exp() * (logprob - of_q.get(&id).unwrap_or(&least_of_q));
    }
    let (rest_of_p, rest_of_q) = (LEAST.max(1.0 - listed_by_p), LEAST.max(1.0 - listed_by_both));
    sum + rest_of_p * (rest_of_p / rest_of_q).ln()
}

//! How alike the next tokens of a model are under two settings.

use std::fmt;
use std::path::Path;

use longwick::engine::{Engine, EngineOptions, PositionLogprobs, Request, RequestKind, RequestOutput};
use longwick::tokenizer::SpecialTokens;

/// Of each position's most likely tokens so many are compared.
const TOP: usize = 50;

/// The most likely tokens after each of the first `tokens` tokens of a text.
pub fn next_tokens(
    model: &Path,
    text: &str,
    tokens: usize,
    options: EngineOptions,
) -> Result<Vec<PositionLogprobs>, Box<dyn std::error::Error>> {
    let mut engine = Engine::load(model, options, &mut |_, _| {})?;
    let mut prompt = engine.tokenizer()?.encode(text, SpecialTokens::AsText)?;
    prompt.truncate(tokens);
    let positions = (0..prompt.len()).collect();
    match engine.run(Request::new(prompt, RequestKind::Logits { positions, top: TOP }))?.output {
        RequestOutput::Logits(found) => Ok(found),
        other => Err(format!("{other:?}").into()),
    }
}

/// What a text's positions have in common.
pub struct Likeness {
    tokens: usize,
    /// Mean KL divergence in nats a token, over the most likely tokens.
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
        Self { tokens, divergence: divergence / tokens as f64, same: same as f64 / tokens as f64 }
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

/// The sum of p (ln p - ln q). A token that is not among q's is as likely there as the last one that is.
fn divergence(p: &PositionLogprobs, q: &PositionLogprobs) -> f64 {
    let of_q = |id| {
        let place = q.ids.iter().position(|&other| other == id).unwrap_or(q.ids.len() - 1);
        f64::from(q.logprobs[place])
    };
    let terms = p.ids.iter().zip(&p.logprobs).map(|(&id, &p)| (f64::from(p), of_q(id)));
    terms.map(|(p, q)| p.exp() * (p - q)).sum()
}

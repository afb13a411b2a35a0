//! One token from one row of logits.

use super::DecodeError;

/// How tokens are chosen.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// 0 is greedy.
    pub temperature: f32,
    /// Keep the k most likely (0: all).
    pub top_k: usize,
    /// Keep the smallest set with this mass (1: all).
    pub top_p: f32,
    /// Draws depend on (seed, request key, position) alone.
    pub seed: u64,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 }
    }
}

impl SamplingParams {
    /// Refuses what is outside its range: a temperature that is negative or not finite, a `top_p` outside (0, 1].
    ///
    /// # Errors
    /// [`DecodeError::Parameter`] names the field.
    pub fn check(&self) -> Result<(), DecodeError> {
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(DecodeError::Parameter {
                field: "temperature",
                value: self.temperature,
                rule: "finite and at least 0",
            });
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(DecodeError::Parameter {
                field: "top_p",
                value: self.top_p,
                rule: "above 0 and at most 1",
            });
        }
        Ok(())
    }
}

/// A token that may be drawn.
#[derive(Clone, Copy)]
struct Candidate {
    token: u32,
    logit: f32,
}

/// Draws one token.
///
/// `request_key` names the request (a stable hash), `position` is the absolute position of the new token, and
/// `allowed` holds the tokens a grammar allows (`None`: all). Greedy ties go to the lower id. `top_k` applies before
/// `top_p`, whose mass is measured over what `top_k` left, at the given temperature.
///
/// # Errors
/// [`DecodeError::NotANumber`] where an allowed logit is NaN or plus infinity, [`DecodeError::NoCandidate`] where
/// nothing allowed has a finite logit, [`DecodeError::Parameter`] from [`SamplingParams::check`].
pub fn sample(
    logits: &[f32],
    params: &SamplingParams,
    request_key: u64,
    position: u64,
    allowed: Option<&toktrie::SimpleVob>,
) -> Result<u32, DecodeError> {
    params.check()?;
    if params.temperature == 0.0 {
        return greedy(logits, position, allowed);
    }
    let mut candidates = candidates(logits, position, allowed)?;
    if params.top_k > 0 && params.top_k < candidates.len() {
        candidates.select_nth_unstable_by(params.top_k - 1, more_likely_first);
        candidates.truncate(params.top_k);
    }
    let uniform = uniform(params.seed, request_key, position);
    Ok(draw(candidates, params, uniform))
}

/// Calls `visit` with each allowed token that has a logit above minus infinity, in id order.
fn for_each_candidate(
    logits: &[f32],
    position: u64,
    allowed: Option<&toktrie::SimpleVob>,
    mut visit: impl FnMut(Candidate),
) -> Result<(), DecodeError> {
    for (index, &logit) in logits.iter().enumerate() {
        // A model's rows may be padded past the tokenizer's vocabulary; a grammar never allows those ids.
        if allowed.is_some_and(|set| index >= set.len() || !set.get(index)) {
            continue;
        }
        let token = index as u32;
        if logit.is_nan() || logit == f32::INFINITY {
            return Err(DecodeError::NotANumber { token, position });
        }
        if logit > f32::NEG_INFINITY {
            visit(Candidate { token, logit });
        }
    }
    Ok(())
}

fn no_candidate(logits: &[f32], position: u64, allowed: Option<&toktrie::SimpleVob>) -> DecodeError {
    let allowed = allowed.map_or(logits.len(), toktrie::SimpleVob::num_set);
    DecodeError::NoCandidate { position, allowed, vocabulary: logits.len() }
}

fn greedy(logits: &[f32], position: u64, allowed: Option<&toktrie::SimpleVob>) -> Result<u32, DecodeError> {
    let mut best: Option<Candidate> = None;
    for_each_candidate(logits, position, allowed, |candidate| {
        if best.is_none_or(|other| candidate.logit > other.logit) {
            best = Some(candidate);
        }
    })?;
    best.map(|candidate| candidate.token).ok_or_else(|| no_candidate(logits, position, allowed))
}

fn candidates(
    logits: &[f32],
    position: u64,
    allowed: Option<&toktrie::SimpleVob>,
) -> Result<Vec<Candidate>, DecodeError> {
    let mut found = Vec::with_capacity(if allowed.is_some() { 0 } else { logits.len() });
    for_each_candidate(logits, position, allowed, |candidate| found.push(candidate))?;
    if found.is_empty() {
        return Err(no_candidate(logits, position, allowed));
    }
    Ok(found)
}

/// A total order (no NaN is left), so that any selection algorithm keeps the same set.
fn more_likely_first(left: &Candidate, right: &Candidate) -> std::cmp::Ordering {
    right.logit.total_cmp(&left.logit).then(left.token.cmp(&right.token))
}

/// Draws from `candidates` (never empty) under temperature and `top_p`.
fn draw(mut candidates: Vec<Candidate>, params: &SamplingParams, uniform: f64) -> u32 {
    let largest = candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max);
    let weight = |candidate: &Candidate| {
        ((f64::from(candidate.logit) - f64::from(largest)) / f64::from(params.temperature)).exp()
    };
    if params.top_p < 1.0 {
        // The order in which probabilities add up must not depend on the selection algorithm, hence the id order here.
        candidates.sort_unstable_by_key(|candidate| candidate.token);
        let total: f64 = candidates.iter().map(&weight).sum();
        keep_mass(&mut candidates, f64::from(params.top_p) * total, &weight);
    }
    candidates.sort_unstable_by_key(|candidate| candidate.token);
    let total: f64 = candidates.iter().map(&weight).sum();
    let target = uniform * total;
    let mut mass = 0.0;
    for candidate in &candidates {
        mass += weight(candidate);
        if target < mass {
            return candidate.token;
        }
    }
    // Rounding can leave `target` at the total; the last token with any weight then stands.
    candidates.iter().rev().find(|candidate| weight(candidate) > 0.0).unwrap_or(&candidates[0]).token
}

/// Keeps the smallest set of most likely candidates whose weights reach `mass`.
fn keep_mass(candidates: &mut Vec<Candidate>, mass: f64, weight: &impl Fn(&Candidate) -> f64) {
    // A vocabulary has a quarter of a million tokens and the nucleus rarely more than a few hundred, so a growing
    // head is sorted instead of everything.
    let mut head = 256.min(candidates.len());
    loop {
        if head < candidates.len() {
            candidates.select_nth_unstable_by(head - 1, more_likely_first);
        }
        candidates[..head].sort_unstable_by(more_likely_first);
        let mut reached = 0.0;
        for index in 0..head {
            reached += weight(&candidates[index]);
            if reached >= mass {
                candidates.truncate(index + 1);
                return;
            }
        }
        if head == candidates.len() {
            return;
        }
        head = (head * 8).min(candidates.len());
    }
}

/// One number in [0, 1) from (seed, request key, position) alone.
///
/// Each word goes through SplitMix64's finaliser (Steele, Lea and Flood 2014), so neighbouring positions and keys
/// are unrelated; the top 53 bits make the double.
fn uniform(seed: u64, request_key: u64, position: u64) -> f64 {
    let state = mix(mix(mix(seed).wrapping_add(request_key)).wrapping_add(position));
    (state >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;

//! [`Weights`]: what share of a run a result is, for the time that is left.

use super::RunnerError;
use super::estimate::{DECODE_SHARE, PREFILL_MULTIPLY_ADDS, TokenCounts};
use super::experiment::Experiment;
use super::phases::Step;
use crate::engine::{EngineStats, ModelSpec};
use std::time::{Duration, Instant};

/// Expected seconds of one place's work, by step, from the estimate of the whole run. Only their ratios matter: the
/// machine's own speed is measured as the run goes.
#[derive(Debug, Clone, Default)]
pub(super) struct Weights {
    by_step: Vec<(Step, f64)>,
    total: f64,
}

impl Weights {
    pub(super) fn new(experiment: &Experiment) -> Result<Self, RunnerError> {
        let mut weights = Self::default();
        for (step, seconds) in experiment.seconds_by_step(TokenCounts::OfHaystacks)? {
            let cells = match step {
                Step::Labels => experiment.labels.len(),
                _ => experiment.num_instances() * experiment.cells(step) * experiment.compactors_of(step),
            };
            weights.by_step.push((step, seconds / cells.max(1) as f64));
            weights.total += seconds;
        }
        Ok(weights)
    }

    pub(super) fn of(&self, step: Step) -> f64 {
        let own = self.by_step.iter().filter(|(other, _)| *other == step);
        own.map(|(_, weight)| weight).sum()
    }
}

/// How far a session is, in expected seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    total: f64,
    /// Work that was found done.
    settled: f64,
    /// Work of results made in this session.
    made: f64,
    /// Work that the engines' counters show, unfinished results' included, by loads that are over.
    computed_before: f64,
    computing_since: Option<Instant>,
    computed: f64,
}

impl Clock {
    pub(super) fn new(weights: &Weights) -> Self {
        Self { total: weights.total, ..Self::default() }
    }

    pub(super) fn settle(&mut self, weight: f64) {
        self.settled += weight;
    }

    pub(super) fn make(&mut self, weight: f64) {
        self.made += weight;
    }

    /// The counters of the present load, of a model that costs so much a token.
    pub(super) fn compute(&mut self, stats: &EngineStats, weights_per_token: u64) {
        self.computing_since.get_or_insert_with(Instant::now);
        let tokens = stats.prefilled_tokens as f64 + stats.generated_tokens as f64 / DECODE_SHARE;
        self.computed = self.computed_before + tokens * weights_per_token as f64 / PREFILL_MULTIPLY_ADDS;
    }

    /// Another model is about to compute; `stats` are those its load has already.
    pub(super) fn change(&mut self, stats: &EngineStats, weights_per_token: u64) {
        let whole = self.computed;
        self.computed_before = 0.0;
        self.compute(stats, weights_per_token);
        (self.computed_before, self.computed) = (whole - self.computed, whole);
    }

    /// The time left; `None` before anything was computed.
    pub(super) fn left(&self) -> Option<Duration> {
        let elapsed = self.computing_since?.elapsed().as_secs_f64();
        let done = self.computed.max(self.made);
        // Results under way are part done: what was computed beyond the finished ones counts for them.
        let left = self.total - self.settled - self.made - (self.computed - self.made).max(0.0);
        let seconds = left.max(0.0) * elapsed / done;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

impl Experiment {
    /// Multiply-adds a token of a model costs.
    pub(super) fn weights_per_token(&self, model: &ModelSpec) -> u64 {
        self.identities.get(model).map_or(0, |identity| identity.config.weights_per_token())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(prefilled: u64) -> EngineStats {
        EngineStats { prefilled_tokens: prefilled, ..EngineStats::default() }
    }

    #[test]
    fn what_was_computed_counts_for_results_under_way() {
        let token = PREFILL_MULTIPLY_ADDS as u64;
        let mut clock = Clock { total: 100.0, ..Clock::default() };
        assert_eq!(clock.left(), None);
        clock.settle(20.0);
        clock.compute(&stats(10), token);
        clock.computing_since = Instant::now().checked_sub(Duration::from_secs(10));
        // 70 of work left, at 1 a second.
        assert_eq!(clock.left().unwrap().as_secs(), 70);
        // Results worth 40 are done although little was computed: outputs were shorter than their limits.
        clock.make(40.0);
        assert_eq!(clock.left().unwrap().as_secs(), 10);
        clock.make(80.0);
        assert_eq!(clock.left().unwrap().as_secs(), 0);
    }

    #[test]
    fn a_second_model_adds_to_the_first() {
        let token = PREFILL_MULTIPLY_ADDS as u64;
        let mut clock = Clock { total: 100.0, ..Clock::default() };
        clock.compute(&stats(10), token);
        clock.change(&stats(5), 2 * token);
        assert_eq!(clock.computed, 10.0);
        clock.compute(&stats(8), 2 * token);
        assert_eq!(clock.computed, 16.0);
    }
}

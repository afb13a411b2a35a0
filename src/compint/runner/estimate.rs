//! [`Estimate`]: what a run will cost, without loading more than tokenizers.

use super::RunnerError;
use super::experiment::Experiment;
use super::phases::Step;
use super::sources::PreparedInstance;
use crate::compint::Condition;
use crate::engine::ModelSpec;
use crate::history::{Message, Role};
use crate::tasks::count_tokens;
use crate::tokenizer::Tokenizer;

/// Multiply-adds a second that two CPU cores reach in prefill, measured on an EPYC of the Zen 3 kind at the shapes of
/// SmolLM2 135M. Decode reads each weight once a token and reaches this share of it.
pub(super) const PREFILL_MULTIPLY_ADDS: f64 = 50e9;
pub(super) const DECODE_SHARE: f64 = 0.1;

/// Tokens of a probe, about.
const PROBE_TOKENS: usize = 100;

/// How a history's tokens are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenCounts {
    /// By the model's own tokenizer.
    Own,
    /// By the haystack's counts, which may be another tokenizer's, and take no time.
    OfHaystacks,
}

/// What a run will cost at most, were nothing done yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Instances of all settings.
    pub instances: usize,
    /// One a kind of work and model, in order.
    pub stages: Vec<StageEstimate>,
}

/// One kind of work.
#[derive(Debug, Clone, PartialEq)]
pub struct StageEstimate {
    /// What is done.
    pub stage: &'static str,
    /// The model.
    pub model: ModelSpec,
    /// Prompts.
    pub prefills: usize,
    /// Tokens of these prompts; what they share is counted again.
    pub prompt_tokens: u64,
    /// Of these, tokens that must be computed when the cache holds a history's prompts.
    pub computed_tokens: u64,
    /// Most new tokens.
    pub output_tokens: u64,
    /// Bytes of weights, and of the longest prompt's keys and values.
    pub memory: (u64, u64),
    /// Seconds, from a stated rate and not a measured one: see [`Estimate::RATE`].
    pub seconds: f64,
}

impl Estimate {
    /// How seconds are estimated.
    pub const RATE: &'static str = "estimated from a stated rate, 50 G multiply-adds a second in prefill and 5 G in \
                                    decode (two CPU cores), not measured on this machine";
}

impl Experiment {
    /// Estimates the whole run. Lengths of what models have yet to write are taken at their limits.
    ///
    /// # Errors
    /// [`RunnerError`].
    pub fn estimate(&self) -> Result<Estimate, RunnerError> {
        let stages = self.costs(TokenCounts::Own)?.into_iter().map(|(_, stage)| stage).collect();
        Ok(Estimate { instances: self.num_instances(), stages })
    }

    /// Expected seconds of each step.
    pub(super) fn seconds_by_step(&self, counts: TokenCounts) -> Result<Vec<(Step, f64)>, RunnerError> {
        Ok(self.costs(counts)?.into_iter().map(|(step, stage)| (step, stage.seconds)).collect())
    }

    fn costs(&self, counts: TokenCounts) -> Result<Vec<(Step, StageEstimate)>, RunnerError> {
        let mut stages = Vec::new();
        for phase in self.phases() {
            let Some(identity) = self.identities.get(&phase.model) else { continue };
            for &step in &phase.steps {
                let mut cost = Cost::default();
                for group in self.sources.groups(&self.protocol, self.constraints.as_ref())? {
                    self.cost(step, &group, &identity.tokenizer, counts, &mut cost)?;
                }
                if step == Step::Labels {
                    for label in &self.labels {
                        let messages = self.protocol.judge_text_messages(&label.sc_text, &label.compacted);
                        let prompt = count_tokens(&identity.tokenizer, &messages)?;
                        // The verdict is generated, then scored after the same prompt.
                        cost.add(1, prompt, prompt, 2);
                        cost.add(1, prompt, 2, 0);
                    }
                }
                let work = cost.computed as f64 + cost.output as f64 / DECODE_SHARE;
                let kv = cost.longest * identity.kv_bytes_per_token(&self.options)? as u64;
                let stage = StageEstimate {
                    stage: super::run::name(step),
                    model: phase.model.clone(),
                    prefills: cost.prefills,
                    prompt_tokens: cost.prompt,
                    computed_tokens: cost.computed,
                    output_tokens: cost.output,
                    memory: (identity.weight_bytes, kv),
                    seconds: work * identity.config.weights_per_token() as f64 / PREFILL_MULTIPLY_ADDS,
                };
                stages.push((step, stage));
            }
        }
        stages.extend(self.encoder_cost(counts)?);
        Ok(stages)
    }

    /// What `llmlingua2` costs: the encoder reads each instance's history once.
    fn encoder_cost(&self, counts: TokenCounts) -> Result<Option<(Step, StageEstimate)>, RunnerError> {
        let (Some((model, encoder)), Some(phase)) =
            (&self.encoder, self.phases().into_iter().find(|phase| phase.steps.contains(&Step::Compact)))
        else {
            return Ok(None);
        };
        let Some(identity) = self.identities.get(&phase.model) else { return Ok(None) };
        let mut kinds: Vec<_> = self
            .config
            .compact
            .compactors
            .iter()
            .filter(|spec| spec.needs_encoder())
            .map(|spec| &spec.kind)
            .collect();
        kinds.dedup();
        let mut cost = Cost::default();
        for group in self.sources.groups(&self.protocol, self.constraints.as_ref())? {
            let Some(first) = group.first() else { continue };
            // Its own tokens are not counted: a tokenizer's counts differ by less than the rate is uncertain.
            let history = match counts {
                TokenCounts::Own => count_tokens(&identity.tokenizer, &first.messages)?,
                TokenCounts::OfHaystacks => first.instance.token_length,
            };
            cost.add(group.len() * kinds.len(), history, history, 0);
        }
        let stage = StageEstimate {
            stage: "compact (encoder)",
            model: ModelSpec { path: model.clone(), quantization: None },
            prefills: cost.prefills,
            prompt_tokens: cost.prompt,
            computed_tokens: cost.computed,
            output_tokens: 0,
            memory: (encoder.weight_bytes, 0),
            seconds: cost.computed as f64 * encoder.config.weights_per_token() as f64 / PREFILL_MULTIPLY_ADDS,
        };
        Ok(Some((Step::Compact, stage)))
    }

    fn cost(
        &self,
        step: Step,
        group: &[PreparedInstance],
        tokenizer: &Tokenizer,
        counts: TokenCounts,
        cost: &mut Cost,
    ) -> Result<(), RunnerError> {
        let Some(first) = group.first() else { return Ok(()) };
        let history = match counts {
            TokenCounts::Own => count_tokens(tokenizer, &first.messages)?,
            TokenCounts::OfHaystacks => first.instance.token_length,
        };
        let instances = group.len();
        let config = &self.config;
        let limit = |model: &str, own: Option<usize>| config.settings(model, own).max_tokens;
        let compact_limit = limit(&config.compact.model, config.compact.max_tokens);
        let text = |text: &str| -> Result<usize, RunnerError> {
            Ok(count_tokens(tokenizer, &[Message::text(Role::User, text)])?)
        };
        match step {
            Step::Labels => {}
            Step::Extract => {
                let Some(table) = &config.extract else { return Ok(()) };
                let turns = first.messages.iter().filter(|message| message.role == Role::User).count();
                // A turn's prompt holds the turn and the assistant message before it: together the history, once.
                let prompt = self
                    .extraction
                    .as_ref()
                    .map_or(String::new(), |prompt| prompt.render("", None, &[]).system);
                let own = text(&prompt)?;
                cost.add(
                    instances * turns,
                    own + history / turns.max(1),
                    history / turns.max(1),
                    limit(&table.model, table.max_tokens),
                );
            }
            Step::Compact => {
                let asked = config.compact.compactors.iter().filter_map(|spec| spec.prompt_name());
                let mut prompts: Vec<&str> = asked.collect();
                prompts.sort_unstable();
                prompts.dedup();
                cost.add(instances * prompts.len(), history, history, compact_limit);
            }
            Step::FullProbe => {
                self.probe_cost(false, instances, history, text(&self.protocol.developer_prompt)?, cost)
            }
            Step::Judge => {
                let after = compact_limit.min(history);
                let judged = instances * config.compact.compactors.len();
                cost.add(judged * 2, after + 200, after / 2 + 100, 2);
            }
            Step::CompactedProbe => {
                let after = compact_limit.min(history);
                self.probe_cost(true, instances, after, text(&self.protocol.developer_prompt)?, cost);
            }
        }
        Ok(())
    }

    /// Probes on a `context` of so many tokens, full or compacted.
    fn probe_cost(
        &self,
        compacted: bool,
        instances: usize,
        context: usize,
        developer: usize,
        cost: &mut Cost,
    ) {
        let Some(table) = &self.config.probe else { return };
        // A choice is scored, and nothing generated for it.
        let output = match table.mode.generates() {
            true => self.config.settings(&table.model, table.max_tokens).max_tokens,
            false => 0,
        };
        let asked: Vec<&Condition> =
            table.conditions.0.iter().filter(|c| c.depends_on_compactor() == compacted).collect();
        let prompt = developer + context + PROBE_TOKENS;
        for (index, condition) in asked.into_iter().enumerate() {
            match (compacted, condition) {
                // The first condition computes a compacted history, the second finds it in the cache.
                (true, _) => {
                    let prompts = instances * self.config.compact.compactors.len();
                    let new = if index == 0 { context } else { 0 };
                    cost.add(prompts, prompt, new + PROBE_TOKENS, output);
                }
                // Without the constraint all probes of a history share it.
                (false, Condition::FullWithoutSc) => {
                    cost.add(instances, prompt, PROBE_TOKENS, output);
                    cost.computed += context as u64;
                }
                (false, _) => cost.add(instances, prompt, context + PROBE_TOKENS, output),
            }
        }
    }
}

#[derive(Default)]
struct Cost {
    prefills: usize,
    prompt: u64,
    computed: u64,
    output: u64,
    longest: u64,
}

impl Cost {
    /// `count` prompts of `prompt` tokens, of which `computed` are new, and outputs of at most `output`.
    fn add(&mut self, count: usize, prompt: usize, computed: usize, output: usize) {
        self.prefills += count;
        self.prompt += (count * prompt) as u64;
        self.computed += (count * computed) as u64;
        self.output += count as u64 * output as u64;
        if count > 0 {
            self.longest = self.longest.max((prompt + output) as u64);
        }
    }
}

//! How instances are built from haystacks.

use super::framing::frame;
use super::injection::{self, Position};
use super::instance::Instance;
use super::protocol::{Constraint, Protocol};
use super::pyjson;
use super::pyrandom::PyRandom;
use crate::history::{FlatMessage, Haystack};

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceOptions {
    /// Cut each history to at most this many tokens.
    pub length: usize,
    /// Where constraints stand.
    pub position: Position,
    /// How many turns state one under [`Position::Multi`].
    pub repeat: usize,
    /// Frame as important.
    pub strict: bool,
    /// Frame with the scope.
    pub direct: bool,
    /// Seeds both the swaps and the choice of turns.
    pub seed: u64,
}

/// What cannot be built.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstanceError {
    /// One statement is a single position.
    #[error("position multi needs repeat of 2 or more, got {repeat}")]
    Repeat {
        /// What was asked for.
        repeat: usize,
    },
    /// Natural constraints are published, not built.
    #[error("position native cannot be built; take top, middle, bottom or multi")]
    Native,
    /// openresearcher histories have one task query.
    #[error("haystack {haystack_id} is of openresearcher, whose one user turn is only top, not {position}")]
    OnlyTop {
        /// The haystack.
        haystack_id: String,
        /// What was asked for.
        position: Position,
    },
    /// Token counts do not belong to the messages.
    #[error("haystack {haystack_id} has {messages} messages but {counts} message_tokens")]
    Counts {
        /// The haystack.
        haystack_id: String,
        /// How many messages.
        messages: usize,
        /// How many counts.
        counts: usize,
    },
    /// No haystack is left to build from.
    #[error(
        "none of {haystacks} haystacks has {length} tokens (the longest has {longest}); take a smaller length, or \
         keep the short ones"
    )]
    NoneLongEnough {
        /// How many there are.
        haystacks: usize,
        /// The length asked for.
        length: usize,
        /// The largest `token_length` among them.
        longest: usize,
    },
    /// There is nowhere to put a constraint.
    #[error("haystack {haystack_id} cut to {length} tokens has {messages} messages and no user turn")]
    NoUserTurn {
        /// The haystack.
        haystack_id: String,
        /// The length asked for.
        length: usize,
        /// Messages left after the cut.
        messages: usize,
    },
}

/// Which haystacks are used, decided before any seed is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Those used, in order.
    pub chosen: Vec<&'a Haystack>,
    /// How many were skipped because their `token_length` is below the length.
    pub too_short: usize,
}

/// The first `first` haystacks (all, for `None`) of at least `length` tokens; `keep_short` keeps the shorter ones too.
///
/// # Errors
/// [`InstanceError::NoneLongEnough`] where that leaves none.
pub fn select_haystacks(
    haystacks: &[Haystack],
    length: usize,
    first: Option<usize>,
    keep_short: bool,
) -> Result<Selection<'_>, InstanceError> {
    let long_enough = |haystack: &&Haystack| keep_short || haystack.token_length >= length;
    let too_short = haystacks.iter().filter(|haystack| !long_enough(haystack)).count();
    let chosen: Vec<&Haystack> =
        haystacks.iter().filter(long_enough).take(first.unwrap_or(usize::MAX)).collect();
    if chosen.is_empty() {
        let longest = haystacks.iter().map(|haystack| haystack.token_length).max().unwrap_or(0);
        return Err(InstanceError::NoneLongEnough { haystacks: haystacks.len(), length, longest });
    }
    Ok(Selection { chosen, too_short })
}

/// Builds instances one at a time: each haystack crossed with the protocol's constraints, haystack-major.
///
/// Everything that can be refused is refused by [`InstanceBuilder::new`]; the iteration itself cannot fail. Long
/// histories times fifteen constraints do not fit in memory at once, which is why this is an iterator.
pub struct InstanceBuilder<'a> {
    protocol: &'a Protocol,
    options: InstanceOptions,
    cuts: Vec<Cut<'a>>,
    swap_random: PyRandom,
    turn_random: PyRandom,
    next: usize,
}

struct Cut<'a> {
    haystack: &'a Haystack,
    messages: &'a [FlatMessage],
    token_length: usize,
    user_turns: Vec<usize>,
    meta: String,
}

impl<'a> InstanceBuilder<'a> {
    /// Checks options and haystacks, and seeds the two generators.
    ///
    /// # Errors
    /// The refusals of [`InstanceError`]. conpact under `multi` would yield instances with the constraint nowhere
    /// where a cut history has no user turn; here that is [`InstanceError::NoUserTurn`] as for the other positions.
    pub fn new(
        haystacks: &[&'a Haystack],
        options: InstanceOptions,
        protocol: &'a Protocol,
    ) -> Result<Self, InstanceError> {
        if options.position == Position::Native {
            return Err(InstanceError::Native);
        }
        if options.position == Position::Multi && options.repeat < 2 {
            return Err(InstanceError::Repeat { repeat: options.repeat });
        }
        let cuts = haystacks.iter().map(|haystack| Cut::new(haystack, &options)).collect::<Result<_, _>>()?;
        let (swap_random, turn_random) = (PyRandom::new(options.seed), PyRandom::new(options.seed));
        Ok(Self { protocol, options, cuts, swap_random, turn_random, next: 0 })
    }

    fn build(&mut self, cut_index: usize, constraint: &Constraint) -> Instance {
        let cut = &self.cuts[cut_index];
        let options = &self.options;
        let sc_rendered = frame(&constraint.text, options.strict, options.direct);
        let turns =
            injection::choose_turns(&cut.user_turns, options.position, options.repeat, &mut self.turn_random);
        let swap_seed = self.swap_random.randint(0, (1 << 31) - 1) as u32;
        let (probe_prompt, compliant_letter) = self.protocol.probe_prompt(
            &constraint.probe,
            &constraint.compliant,
            &constraint.noncompliant,
            u64::from(swap_seed),
        );
        Instance {
            id: format!("{}:sc{:02}", cut.haystack.haystack_id, constraint.id),
            source: cut.haystack.source.clone(),
            haystack_id: cut.haystack.haystack_id.clone(),
            target_length: options.length,
            token_length: cut.token_length,
            position: options.position,
            repeat: if options.position == Position::Multi { options.repeat } else { 1 },
            strict: options.strict,
            direct: options.direct,
            sc_id: constraint.id,
            sc_type: constraint.kind.clone(),
            sc_text: constraint.text.clone(),
            messages: injection::inject(cut.messages, &sc_rendered, &turns),
            messages_without_sc: cut.messages.to_vec(),
            sc_message_indices: turns,
            system_prompt: cut.haystack.system_prompt.clone(),
            developer_prompt: self.protocol.developer_prompt.clone(),
            probe: constraint.probe.clone(),
            correct_answer: constraint.compliant.clone(),
            incorrect_answer: constraint.noncompliant.clone(),
            swap_seed,
            compliant_letter,
            post_sc_probe_prompt: format!("{sc_rendered}\n\n{probe_prompt}"),
            probe_prompt,
            sc_rendered,
            meta: cut.meta.clone(),
        }
    }
}

impl<'a> Cut<'a> {
    fn new(haystack: &'a Haystack, options: &InstanceOptions) -> Result<Self, InstanceError> {
        let haystack_id = || haystack.haystack_id.clone();
        if haystack.source == "openresearcher" && options.position != Position::Top {
            return Err(InstanceError::OnlyTop { haystack_id: haystack_id(), position: options.position });
        }
        let (messages, counts) = (haystack.messages.len(), haystack.message_tokens.len());
        if messages != counts {
            return Err(InstanceError::Counts { haystack_id: haystack_id(), messages, counts });
        }
        let (kept, token_length) = injection::cut(&haystack.message_tokens, options.length);
        let messages = &haystack.messages[..kept];
        let user_turns = injection::user_turns(messages);
        if user_turns.is_empty() {
            let length = options.length;
            return Err(InstanceError::NoUserTurn { haystack_id: haystack_id(), length, messages: kept });
        }
        // A map of one number under a string key always writes.
        let meta = pyjson::dumps(&serde_json::json!({
            "source_conversation_count": haystack.source_conversation_count,
        }))
        .unwrap_or_default();
        Ok(Self { haystack, messages, token_length, user_turns, meta })
    }
}

impl Iterator for InstanceBuilder<'_> {
    type Item = Instance;

    fn next(&mut self) -> Option<Instance> {
        let protocol = self.protocol;
        let count = protocol.constraints.len();
        let cut_index = self.next.checked_div(count)?;
        if cut_index >= self.cuts.len() {
            return None;
        }
        let constraint = &protocol.constraints[self.next % count];
        self.next += 1;
        Some(self.build(cut_index, constraint))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.cuts.len() * self.protocol.constraints.len() - self.next;
        (left, Some(left))
    }
}

/// All instances at once; [`InstanceBuilder`] gives them one at a time.
///
/// # Errors
/// As [`InstanceBuilder::new`].
pub fn build_instances(
    haystacks: &[&Haystack],
    options: InstanceOptions,
    protocol: &Protocol,
) -> Result<Vec<Instance>, InstanceError> {
    Ok(InstanceBuilder::new(haystacks, options, protocol)?.collect())
}

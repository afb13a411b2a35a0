//! [`Session`]: a prefilled history that branches start from.

use super::load::Engine;
use super::sequence::{Goal, SequenceState, SequenceStatus};
use super::{Completion, EngineError, GenerateParams, Request, RequestKind, SequenceId};

/// Names tokens whose keys and values stay in the cache until [`Engine::close_session`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Session {
    pub(super) id: SequenceId,
}

impl Engine {
    /// Prefills `tokens` and keeps them.
    ///
    /// # Errors
    /// As [`Engine::submit`] and [`Engine::step`].
    pub fn open_session(&mut self, tokens: &[u32]) -> Result<Session, EngineError> {
        let mut sequence = SequenceState::new(Vec::new(), Vec::new(), Goal::Hold);
        sequence.status = SequenceStatus::Held;
        sequence.cache = self.cache.attach(&[]);
        let id = self.next_id();
        self.sequences.insert(id, sequence);
        let session = Session { id };
        match self.extend_session(&session, tokens) {
            Ok(()) => Ok(session),
            Err(error) => {
                self.close_session(session);
                Err(error)
            }
        }
    }

    /// A branch that shares the first `at` tokens of `session`. At the session's end every block is shared, the
    /// last one copied when one of the two writes; before it, the complete blocks before `at` are.
    ///
    /// # Errors
    /// [`EngineError::UnknownSession`], or [`EngineError::InvalidRequest`] where `at` is past the end.
    pub fn fork_session(&mut self, session: &Session, at: usize) -> Result<Session, EngineError> {
        let parent = self.session_state(session)?;
        let length = parent.tokens.len();
        if at > length {
            let reason = format!("fork at token {at} of a session of {length} tokens");
            return Err(EngineError::InvalidRequest(reason));
        }
        if at < length {
            self.cache.mark_boundary(&self.sequences[&session.id].cache, at);
            let tokens = self.sequences[&session.id].tokens[..at].to_vec();
            return self.open_session(&tokens);
        }
        let mut branch = SequenceState::new(parent.tokens.clone(), Vec::new(), Goal::Hold);
        let id = self.next_id();
        branch.status = SequenceStatus::Held;
        branch.cache = self.cache.fork(&self.sequences[&session.id].cache);
        self.sequences.insert(id, branch);
        Ok(Session { id })
    }

    /// Appends tokens to a session and prefills them.
    ///
    /// # Errors
    /// As [`Engine::submit`] and [`Engine::step`]. A refusal leaves the session as it was; after any other error it
    /// holds what it held, and what was computed of the new tokens.
    pub fn extend_session(&mut self, session: &Session, tokens: &[u32]) -> Result<(), EngineError> {
        self.check_tokens(tokens)?;
        let old_length = self.session_state(session)?.tokens.len();
        let length = old_length + tokens.len();
        self.check_length(length, 0)?;
        self.check_beside_sessions(session.id, length)?;
        let Some(sequence) = self.sequences.get_mut(&session.id).filter(|_| !tokens.is_empty()) else {
            return Ok(());
        };
        sequence.tokens.extend_from_slice(tokens);
        sequence.prompt_len = length;
        if sequence.num_computed() == 0 {
            // Nothing is held yet, so that admission may look for a cached prefix.
            sequence.status = SequenceStatus::Waiting;
            self.waiting.push_back(session.id);
        } else {
            sequence.status = SequenceStatus::Running;
            self.running.push(session.id);
            self.running.sort_unstable();
        }
        let is_held = |engine: &Self| engine.sequences[&session.id].status == SequenceStatus::Held;
        let outcome = self.step_until(|engine, _| is_held(engine));
        if outcome.is_err() {
            self.abandon_extension(session.id, old_length);
        }
        outcome
    }

    /// Takes a session whose extension failed out of the schedule.
    fn abandon_extension(&mut self, id: SequenceId, old_length: usize) {
        self.running.retain(|other| *other != id);
        self.waiting.retain(|other| *other != id);
        if let Some(sequence) = self.sequences.get_mut(&id) {
            let length = old_length.max(sequence.num_computed());
            sequence.tokens.truncate(length);
            sequence.prompt_len = length;
            sequence.status = SequenceStatus::Held;
        }
    }

    /// Generates after the session's tokens; the session itself stays as it is.
    ///
    /// # Errors
    /// As [`Engine::submit`] and [`Engine::step`].
    pub fn generate_on(
        &mut self,
        session: &Session,
        params: GenerateParams,
    ) -> Result<Completion, EngineError> {
        let prompt = self.session_state(session)?.tokens.clone();
        self.run(Request::new(prompt, RequestKind::Generate(params)))
    }

    /// Scores continuations after the session's tokens.
    ///
    /// # Errors
    /// As [`Engine::submit`] and [`Engine::step`].
    pub fn score_on(
        &mut self,
        session: &Session,
        continuations: Vec<Vec<u32>>,
    ) -> Result<Completion, EngineError> {
        let prompt = self.session_state(session)?.tokens.clone();
        self.run(Request::new(prompt, RequestKind::Score { continuations }))
    }

    /// Tokens of a session.
    ///
    /// # Errors
    /// [`EngineError::UnknownSession`].
    pub fn session_tokens(&self, session: &Session) -> Result<&[u32], EngineError> {
        Ok(&self.session_state(session)?.tokens)
    }

    /// Gives a session's blocks back; they stay cached until memory is short.
    pub fn close_session(&mut self, session: Session) {
        self.remove(session.id);
    }

    pub(super) fn session_state(&self, session: &Session) -> Result<&SequenceState, EngineError> {
        let state = self.sequences.get(&session.id).filter(|state| matches!(state.goal, Goal::Hold));
        state.ok_or(EngineError::UnknownSession(session.id))
    }
}

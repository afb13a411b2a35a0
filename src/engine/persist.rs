//! Sessions and prefixes in files: what one process computed, a later one reads.

use std::path::{Path, PathBuf};

use super::load::Engine;
use super::sequence::{Goal, SequenceState, SequenceStatus};
use super::{EngineError, SequenceId, Session};
use crate::kv::KvPlan;
use crate::kv::disk::{KvDirectory, KvIdentity};
use crate::model::ModelConfig;

/// A folder that keeps the prefixes of prompts for later processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvDirectoryOptions {
    /// The folder; it is made where it is missing.
    pub folder: PathBuf,
    /// Most bytes it keeps; the least recently used files go first.
    pub max_bytes: u64,
}

impl Engine {
    /// Writes a session to `file`, whole or not at all; returns its bytes. [`Self::restore_session`] reads it in any
    /// process that has the same model, settings and arithmetic.
    ///
    /// # Errors
    /// [`EngineError::UnknownSession`], [`EngineError::KvFile`].
    pub fn save_session(&self, session: &Session, file: &Path) -> Result<u64, EngineError> {
        let state = self.session_state(session)?;
        if state.num_remaining() > 0 {
            let (missing, length) = (state.num_remaining(), state.tokens.len());
            let reason = format!("{missing} of the session's {length} tokens are not computed");
            return Err(EngineError::InvalidRequest(reason));
        }
        Ok(self.cache.save_sequence(&state.cache, &state.tokens, &self.kv_identity, file)?)
    }

    /// Opens the session that a file holds. It goes on bit for bit as the saved one would.
    ///
    /// # Errors
    /// [`EngineError::KvFile`] for a file that is damaged, or was made by another model, setting or arithmetic, or for
    /// which the pool has no room; [`EngineError::ContextExceeded`].
    pub fn restore_session(&mut self, file: &Path) -> Result<Session, EngineError> {
        let (tokens, cache) = self.cache.load_sequence(file, &self.kv_identity)?;
        if let Err(error) = self.check_tokens(&tokens).and_then(|()| self.check_length(tokens.len(), 0)) {
            self.cache.free(cache);
            return Err(error);
        }
        let mut sequence = SequenceState::new(tokens, Vec::new(), Goal::Hold);
        sequence.status = SequenceStatus::Held;
        sequence.cache = cache;
        let id = self.next_id();
        self.sequences.insert(id, sequence);
        Ok(Session { id })
    }

    /// Brings what the folder has of a sequence's prompt into the cache, before it is admitted.
    pub(super) fn restore_prefix(&mut self, id: SequenceId) {
        let Some(directory) = &mut self.kv_directory else { return };
        let Some(sequence) = self.sequences.get(&id) else { return };
        directory.restore(&mut self.cache, sequence.reusable_tokens());
        self.stats.kv_directory = directory.usage();
    }

    /// Keeps a prompt that has just been computed to its end in the folder.
    pub(super) fn keep_prefix(&mut self, id: SequenceId) {
        let Some(directory) = &mut self.kv_directory else { return };
        let Some(sequence) = self.sequences.get(&id) else { return };
        let SequenceState { cache, tokens, last_boundary, .. } = sequence;
        directory.keep(&self.cache, cache, tokens, *last_boundary);
        self.stats.kv_directory = directory.usage();
    }
}

/// What the bytes in this engine's cache depend on.
pub(super) fn kv_identity(
    weights: String,
    config: &ModelConfig,
    arithmetic: String,
    plan: &KvPlan,
) -> KvIdentity {
    let rope = format!("{:?} {:?} {:?}", config.rope, config.rope_sliding, config.rope_layout);
    KvIdentity::new(weights, rope, arithmetic, plan)
}

/// Opens the folder of the options, where there is one and prefixes are kept at all.
pub(super) fn open_directory(
    options: &super::EngineOptions,
    identity: &KvIdentity,
) -> Result<Option<KvDirectory>, EngineError> {
    let Some(directory) = options.kv_directory.as_ref().filter(|_| options.prefix_cache) else {
        return Ok(None);
    };
    Ok(Some(KvDirectory::open(&directory.folder, identity.clone(), directory.max_bytes)?))
}

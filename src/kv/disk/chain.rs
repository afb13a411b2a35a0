//! [`TokenChain`]: digests of prefixes, computed in one pass.

use sha2::{Digest, Sha256};

use super::KvIdentity;

/// A digest of an identity and the tokens so far. Equal digests mean equal keys and values.
#[derive(Clone)]
pub(super) struct TokenChain {
    hasher: Sha256,
}

impl TokenChain {
    /// Before the first token.
    pub fn new(identity: &KvIdentity) -> Self {
        Self { hasher: Sha256::new_with_prefix(identity.digest()) }
    }

    /// Appends tokens.
    pub fn push(&mut self, tokens: &[u32]) {
        for token in tokens {
            self.hasher.update(token.to_le_bytes());
        }
    }

    /// The digest of what was pushed so far, hex.
    pub fn digest(&self) -> String {
        crate::weights::hex(&self.hasher.clone().finalize())
    }
}

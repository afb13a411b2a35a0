//! [`KvIdentity`]: what cached keys and values depend on beside the tokens.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::kv::KvPlan;

/// What the bytes of cached keys, values and states depend on, beside the token ids. Two engines with equal identities
/// compute equal bytes for equal tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvIdentity {
    /// Digest of the weights, hex.
    pub weights: String,
    /// Rope settings, in words.
    pub rope: String,
    /// Backend, instruction set, KV element type and version.
    pub arithmetic: String,
    /// Tokens a block.
    pub block_size: usize,
    /// How pages and states are laid out.
    pub layout: String,
}

impl KvIdentity {
    /// The identity of a cache that `plan` lays out.
    pub fn new(weights: String, rope: String, arithmetic: String, plan: &KvPlan) -> Self {
        let groups = plan.groups.iter().map(|group| {
            let layout = &group.layout;
            let window = group.window.map_or(String::new(), |window| format!(" window {window}"));
            let layers = group.layers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            format!(
                "layers {layers}: {} heads of {} as {:?}{window}",
                layout.kv_heads, layout.head_dim, layout.dtype
            )
        });
        let states =
            plan.states.map(|states| format!("{} recurrent layers of {:?}", states.layers, states.shape));
        let layout = groups.chain(states).collect::<Vec<_>>().join("; ");
        Self { weights, rope, arithmetic, block_size: plan.block_size, layout }
    }

    /// The first field in which a file's identity differs: its name, this one's value and the file's.
    pub(super) fn difference(&self, file: &Self) -> Option<(&'static str, String, String)> {
        let fields = |identity: &Self| {
            [
                ("weight digest", identity.weights.clone()),
                ("rope setting", identity.rope.clone()),
                ("arithmetic", identity.arithmetic.clone()),
                ("block size", identity.block_size.to_string()),
                ("page layout", identity.layout.clone()),
            ]
        };
        let pairs = fields(self).into_iter().zip(fields(file));
        pairs.map(|((name, own), (_, found))| (name, own, found)).find(|(_, own, found)| own != found)
    }

    /// sha256 over all fields.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        for field in [&self.weights, &self.rope, &self.arithmetic, &self.block_size.to_string(), &self.layout]
        {
            hasher.update((field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        hasher.finalize().into()
    }
}

//! [`KvPlan`]: which layers share pages.

use super::{KvError, SLOTS_PER_SEQUENCE};
use crate::ops::{KvDtype, KvPageLayout, RecurrentShape, STATE_CHUNK, StateLayout};

/// How one layer caches keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerKv {
    /// Every token stays visible.
    Full {
        /// Key and value heads.
        kv_heads: usize,
        /// Elements a head.
        head_dim: usize,
    },
    /// A token at position p sees positions above p - window.
    Sliding {
        /// Visible tokens, the querying one included.
        window: u32,
        /// Key and value heads.
        kv_heads: usize,
        /// Elements a head.
        head_dim: usize,
    },
    /// A state of one size, whatever the number of tokens.
    Recurrent(RecurrentShape),
}

impl LayerKv {
    /// The window in tokens; `None` for full attention, and for a layer that owns no keys and values.
    pub fn window(self) -> Option<u32> {
        match self {
            LayerKv::Full { .. } | LayerKv::Recurrent(_) => None,
            LayerKv::Sliding { window, .. } => Some(window),
        }
    }

    /// `(kv_heads, head_dim)`; `None` for a layer that owns no keys and values.
    pub fn shape(self) -> Option<(usize, usize)> {
        match self {
            LayerKv::Full { kv_heads, head_dim } | LayerKv::Sliding { kv_heads, head_dim, .. } => {
                Some((kv_heads, head_dim))
            }
            LayerKv::Recurrent(_) => None,
        }
    }
}

/// Layers of one kind whose blocks share a page and therefore a block table.
#[derive(Debug, Clone)]
pub struct KvCacheGroup {
    /// The layers' window; `None` for full attention.
    pub window: Option<u32>,
    /// Model layers, ascending; `layout.layers_per_page` at most.
    pub layers: Vec<usize>,
    /// How a page is laid out.
    pub layout: KvPageLayout,
}

impl KvCacheGroup {
    /// Index of the oldest block that a query at `position` can still see.
    pub fn first_visible_block(&self, position: usize) -> usize {
        match self.window {
            None => 0,
            Some(window) => (position + 1).saturating_sub(window as usize) / self.layout.block_size,
        }
    }

    /// Most blocks a sequence of `tokens` holds at once while it is computed in steps of `chunk` tokens.
    pub fn blocks_held(&self, tokens: usize, chunk: usize) -> usize {
        let block_size = self.layout.block_size;
        let all = tokens.div_ceil(block_size);
        match self.window {
            None => all,
            // A window and a chunk may both straddle one block edge more than their length says.
            Some(window) => all.min((window as usize + chunk).div_ceil(block_size) + 1),
        }
    }
}

/// Where a layer's keys and values, or its states, lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerSlot {
    /// Index into [`KvPlan::groups`]; for a recurrent layer one past its end.
    pub group: usize,
    /// The layer's place in the group's pages, or in the state slots.
    pub layer_in_page: usize,
}

/// The groups of a model, and each layer's place in them.
#[derive(Debug, Clone)]
pub struct KvPlan {
    /// All groups.
    pub groups: Vec<KvCacheGroup>,
    /// One entry a model layer.
    pub layers: Vec<LayerSlot>,
    /// Tokens a block.
    pub block_size: usize,
    /// Bytes of a page: the largest of the groups'.
    pub page_bytes: usize,
    /// How the recurrent layers' states lie in slots, where there are such layers.
    pub states: Option<StateLayout>,
}

impl KvPlan {
    /// Groups `layers` so that every group fills a page of the same size.
    ///
    /// A kind of layer with n members is cut into groups of `layers_per_page`; that number is the largest one
    /// that leaves at most a tenth of the pages' room empty.
    ///
    /// # Errors
    /// [`KvError::Setting`] for a block size that is not a positive multiple of 16, a model without attention layers, or
    /// recurrent layers of more than one shape; [`KvError::Op`] for a shape that the operations do not take.
    pub fn new(layers: &[LayerKv], block_size: usize, dtype: KvDtype) -> Result<Self, KvError> {
        if block_size == 0 || !block_size.is_multiple_of(16) {
            let reason = format!("{block_size} is not a positive multiple of 16");
            return Err(KvError::Setting { setting: "block_size", reason });
        }
        if layers.iter().all(|layer| layer.shape().is_none()) {
            let reason = "the model has no attention layers".to_owned();
            return Err(KvError::Setting { setting: "layers", reason });
        }
        let mut kinds: Vec<(LayerKv, Vec<usize>)> = Vec::new();
        for (index, &layer) in layers.iter().enumerate().filter(|(_, layer)| layer.shape().is_some()) {
            match kinds.iter_mut().find(|(kind, _)| *kind == layer) {
                Some((_, members)) => members.push(index),
                None => kinds.push((layer, vec![index])),
            }
        }
        let counts: Vec<usize> = kinds.iter().map(|(_, members)| members.len()).collect();
        let layers_per_page = layers_per_page(&counts);
        let mut plan = Self {
            groups: Vec::new(),
            layers: vec![LayerSlot { group: 0, layer_in_page: 0 }; layers.len()],
            block_size,
            page_bytes: 0,
            states: None,
        };
        for (kind, members) in kinds {
            let Some((kv_heads, head_dim)) = kind.shape() else { continue };
            for chunk in members.chunks(layers_per_page) {
                for (layer_in_page, &layer) in chunk.iter().enumerate() {
                    plan.layers[layer] = LayerSlot { group: plan.groups.len(), layer_in_page };
                }
                let layout = KvPageLayout { block_size, layers_per_page, kv_heads, head_dim, dtype };
                plan.page_bytes = plan.page_bytes.max(layout.page_bytes());
                plan.groups.push(KvCacheGroup { window: kind.window(), layers: chunk.to_vec(), layout });
            }
        }
        plan.place_states(layers)?;
        Ok(plan)
    }

    /// Gives each recurrent layer its place in the state slots.
    fn place_states(&mut self, layers: &[LayerKv]) -> Result<(), KvError> {
        for (index, layer) in layers.iter().enumerate() {
            let LayerKv::Recurrent(shape) = *layer else { continue };
            let states = self.states.get_or_insert(StateLayout { shape, layers: 0 });
            if states.shape != shape {
                let reason = format!("layer {index} keeps {shape:?}, and others {:?}", states.shape);
                return Err(KvError::Setting { setting: "layers", reason });
            }
            self.layers[index] = LayerSlot { group: self.groups.len(), layer_in_page: states.layers };
            states.layers += 1;
        }
        Ok(self.states.map_or(Ok(()), |states| states.validate())?)
    }

    /// Most state slots a sequence holds at once: none without recurrent layers.
    pub fn slots_held(&self) -> usize {
        if self.states.is_some() { SLOTS_PER_SEQUENCE } else { 0 }
    }

    /// Snapshots of states lie on multiples of so many tokens: of 64, and of whole blocks.
    pub fn snapshot_unit(&self) -> usize {
        let (mut a, mut b) = (self.block_size, STATE_CHUNK);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        self.block_size / a * STATE_CHUNK
    }

    /// Bytes one more token costs once every window is full, and what it costs before that.
    pub fn bytes_per_token(&self) -> (usize, usize) {
        let per_group = self.page_bytes / self.block_size;
        let full = self.groups.iter().filter(|group| group.window.is_none()).count();
        (full * per_group, self.groups.len() * per_group)
    }

    /// Most pages a sequence of `tokens` holds at once, over all groups.
    pub fn blocks_held(&self, tokens: usize, chunk: usize) -> usize {
        self.groups.iter().map(|group| group.blocks_held(tokens, chunk)).sum()
    }
}

fn layers_per_page(counts: &[usize]) -> usize {
    let total: usize = counts.iter().sum();
    let largest = counts.iter().copied().max().unwrap_or(1);
    (1..=largest)
        .rev()
        .find(|&size| {
            let room: usize = counts.iter().map(|count| count.div_ceil(size) * size).sum();
            (room - total) * 10 <= total
        })
        .unwrap_or(1)
}

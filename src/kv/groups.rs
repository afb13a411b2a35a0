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
    /// The layer reads what the earlier layer of this index wrote, and owns nothing.
    SharedWith(usize),
    /// A state of one size, whatever the number of tokens.
    Recurrent(RecurrentShape),
}

impl LayerKv {
    /// The window in tokens; `None` for full attention, and for a layer that owns no keys and values.
    pub fn window(self) -> Option<u32> {
        match self {
            LayerKv::Full { .. } | LayerKv::SharedWith(_) | LayerKv::Recurrent(_) => None,
            LayerKv::Sliding { window, .. } => Some(window),
        }
    }

    /// `(kv_heads, head_dim)`; `None` for a layer that owns no keys and values.
    pub fn shape(self) -> Option<(usize, usize)> {
        match self {
            LayerKv::Full { kv_heads, head_dim } | LayerKv::Sliding { kv_heads, head_dim, .. } => {
                Some((kv_heads, head_dim))
            }
            LayerKv::SharedWith(_) | LayerKv::Recurrent(_) => None,
        }
    }
}

/// Layers of one kind, before they are cut into groups.
struct Kind {
    layer: LayerKv,
    members: Vec<usize>,
    /// A page of one such layer.
    layout: KvPageLayout,
}

impl Kind {
    fn bytes_a_layer(&self) -> usize {
        self.layout.page_bytes()
    }

    /// Layers that a page of `page_bytes` takes.
    fn layers_per_page(&self, page_bytes: usize) -> usize {
        (page_bytes / self.bytes_a_layer()).clamp(1, self.members.len())
    }

    /// Bytes that pages of `page_bytes` leave empty, and bytes that they fill, for one block of each layer.
    fn waste(&self, page_bytes: usize) -> (usize, usize) {
        let pages = self.members.len().div_ceil(self.layers_per_page(page_bytes));
        let filled = self.members.len() * self.bytes_a_layer();
        (pages * page_bytes - filled, filled)
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
    /// Each kind of layer is cut into groups of as many layers as fit a page. The page is the largest one of which no
    /// kind leaves more than a tenth empty, so that many layers share a block table, and neither long contexts (full
    /// layers) nor short ones (sliding layers) pay for room that nothing uses. Where every size leaves more, it is the
    /// one that leaves the least.
    ///
    /// # Errors
    /// [`KvError::Setting`] for a block size that is not a positive multiple of 16, a model without attention layers, a
    /// layer that shares with one that owns no keys and values or comes later, or recurrent layers of more than one shape;
    /// [`KvError::Op`] for a shape that the operations do not take.
    pub fn new(layers: &[LayerKv], block_size: usize, dtype: KvDtype) -> Result<Self, KvError> {
        let refuse = |setting, reason| Err(KvError::Setting { setting, reason });
        if block_size == 0 || !block_size.is_multiple_of(16) {
            return refuse("block_size", format!("{block_size} is not a positive multiple of 16"));
        }
        let kinds = kinds(layers, block_size, dtype);
        kinds.iter().try_for_each(|kind| kind.layout.validate())?;
        let Some(page_bytes) = page_bytes(&kinds) else {
            return refuse("layers", "the model has no attention layers".to_owned());
        };
        let mut plan = Self {
            groups: Vec::new(),
            layers: vec![LayerSlot { group: 0, layer_in_page: 0 }; layers.len()],
            block_size,
            page_bytes: 0,
            states: None,
        };
        for kind in &kinds {
            let Kind { layer, members, layout } = kind;
            let layers_per_page = kind.layers_per_page(page_bytes);
            for chunk in members.chunks(layers_per_page) {
                for (layer_in_page, &layer) in chunk.iter().enumerate() {
                    plan.layers[layer] = LayerSlot { group: plan.groups.len(), layer_in_page };
                }
                let layout = KvPageLayout { layers_per_page, ..layout.clone() };
                plan.page_bytes = plan.page_bytes.max(layout.page_bytes());
                plan.groups.push(KvCacheGroup { window: layer.window(), layers: chunk.to_vec(), layout });
            }
        }
        plan.place_shared(layers)?;
        plan.place_states(layers)?;
        Ok(plan)
    }

    /// Gives each layer without keys and values of its own the place of those that it reads.
    fn place_shared(&mut self, layers: &[LayerKv]) -> Result<(), KvError> {
        for (index, &layer) in layers.iter().enumerate() {
            let LayerKv::SharedWith(owner) = layer else { continue };
            let owns = layers[..index].get(owner).is_some_and(|owner| owner.shape().is_some());
            if !owns {
                let reason =
                    format!("layer {index} shares with {owner}, no earlier layer with a cache of its own");
                return Err(KvError::Setting { setting: "layers", reason });
            }
            self.layers[index] = self.layers[owner];
        }
        Ok(())
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

    /// Tokens between snapshots where one is asked for every `tokens`: rounded up to [`Self::snapshot_unit`].
    pub fn snapshot_interval(&self, tokens: usize) -> usize {
        tokens.max(1).checked_next_multiple_of(self.snapshot_unit()).unwrap_or(usize::MAX)
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

fn kinds(layers: &[LayerKv], block_size: usize, dtype: KvDtype) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (index, &layer) in layers.iter().enumerate() {
        let Some((kv_heads, head_dim)) = layer.shape() else { continue };
        match kinds.iter_mut().find(|kind| kind.layer == layer) {
            Some(kind) => kind.members.push(index),
            None => {
                let layout = KvPageLayout { block_size, layers_per_page: 1, kv_heads, head_dim, dtype };
                kinds.push(Kind { layer, members: vec![index], layout });
            }
        }
    }
    kinds
}

/// The size of a page; `None` without kinds.
fn page_bytes(kinds: &[Kind]) -> Option<usize> {
    let least = kinds.iter().map(Kind::bytes_a_layer).max()?;
    let mut sizes: Vec<usize> = kinds
        .iter()
        .flat_map(|kind| (1..=kind.members.len()).map(|layers| layers * kind.bytes_a_layer()))
        .filter(|&size| size >= least)
        .collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    // In thousandths, so that sizes compare alike on every machine.
    let worst_waste = |size: usize| {
        let shares = kinds.iter().map(|kind| {
            let (empty, filled) = kind.waste(size);
            empty * 1_000 / filled.max(1)
        });
        shares.max().unwrap_or(0)
    };
    let good = sizes.iter().copied().find(|&size| worst_waste(size) <= 100);
    good.or_else(|| sizes.iter().copied().min_by_key(|&size| worst_waste(size)))
}

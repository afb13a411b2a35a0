//! [`PrefixCache`]: which blocks hold which tokens, as a radix tree at block granularity.

use std::collections::HashMap;

use super::{BlockId, KvCacheGroup};

/// A node of the tree: one block's worth of tokens after its parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

const ROOT: NodeId = NodeId(0);

#[derive(Debug, Default)]
struct Node {
    parent: Option<NodeId>,
    tokens: Box<[u32]>,
    children: HashMap<Box<[u32]>, NodeId>,
    /// One place a group, and behind them one for a snapshot of the states after this node.
    blocks: Vec<Option<BlockId>>,
    /// Blocks from the root to the end of this node.
    depth: u32,
    /// Sequences whose tokens run through this node.
    users: u32,
    /// Whether a branch boundary lies within a window behind this node.
    near_boundary: bool,
}

/// The longest cached prefix of some tokens that every group can use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixHit {
    /// The nodes, from the root on; each is one block.
    pub nodes: Vec<NodeId>,
}

/// A radix tree over token ids. Each edge is one complete block; a node names the block of each group that is still cached.
#[derive(Debug)]
pub struct PrefixCache {
    nodes: Vec<Node>,
    unused: Vec<NodeId>,
    num_groups: usize,
    needs_snapshots: bool,
    block_size: usize,
}

impl PrefixCache {
    /// An empty tree. With `needs_snapshots` a node also has a place `num_groups` for a state slot, without which no prefix
    /// that ends there is usable.
    pub fn new(num_groups: usize, needs_snapshots: bool, block_size: usize) -> Self {
        let root = Node { users: 1, ..Node::default() };
        Self { nodes: vec![root], unused: Vec::new(), num_groups, needs_snapshots, block_size }
    }

    /// Nodes in the tree, the root not counted.
    pub fn len(&self) -> usize {
        self.nodes.len() - 1 - self.unused.len()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block a node lists for a group.
    pub fn block(&self, node: NodeId, group: usize) -> Option<BlockId> {
        self.nodes[node.0 as usize].blocks.get(group).copied().flatten()
    }

    /// The longest usable prefix of `tokens`, `max_blocks` blocks at most.
    ///
    /// A prefix of n blocks is usable when each group has every block that a query right after it can see:
    /// all n for full attention, those within the window for a sliding group; and a snapshot after the last of them where
    /// there are recurrent layers.
    pub fn lookup(&self, groups: &[KvCacheGroup], tokens: &[u32], max_blocks: usize) -> PrefixHit {
        let mut nodes = Vec::new();
        let mut node = ROOT;
        for key in tokens.chunks_exact(self.block_size).take(max_blocks) {
            let Some(child) = self.find_child(Some(node), key) else { break };
            node = child;
            nodes.push(node);
        }
        let usable = self.usable_lengths(groups, &nodes).last();
        nodes.truncate(usable.unwrap_or(0));
        PrefixHit { nodes }
    }

    /// The numbers of blocks after which a sequence that shares `nodes`, from the root on, may start; ascending.
    pub fn usable_lengths(&self, groups: &[KvCacheGroup], nodes: &[NodeId]) -> impl Iterator<Item = usize> {
        let mut runs = vec![0usize; groups.len()];
        nodes.iter().enumerate().filter_map(move |(index, &node)| {
            let num_blocks = index + 1;
            let mut usable = !self.needs_snapshots || self.block(node, self.num_groups).is_some();
            for (g, (group, run)) in groups.iter().zip(&mut runs).enumerate() {
                *run = if self.block(node, g).is_some() { *run + 1 } else { 0 };
                let first = group.first_visible_block(num_blocks * self.block_size);
                usable &= *run >= num_blocks - first.min(num_blocks);
            }
            usable.then_some(num_blocks)
        })
    }

    /// The child of `parent` (the root for `None`) with these tokens.
    pub fn find_child(&self, parent: Option<NodeId>, tokens: &[u32]) -> Option<NodeId> {
        self.nodes[parent.unwrap_or(ROOT).0 as usize].children.get(tokens).copied()
    }

    /// The child of `parent` (the root for `None`) with these tokens, made where absent.
    pub fn child(&mut self, parent: Option<NodeId>, tokens: &[u32]) -> NodeId {
        let parent = parent.unwrap_or(ROOT);
        if let Some(child) = self.find_child(Some(parent), tokens) {
            return child;
        }
        let node = Node {
            parent: Some(parent),
            tokens: tokens.into(),
            blocks: vec![None; self.num_groups + usize::from(self.needs_snapshots)],
            depth: self.nodes[parent.0 as usize].depth + 1,
            ..Node::default()
        };
        let id = match self.unused.pop() {
            Some(id) => {
                self.nodes[id.0 as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                NodeId((self.nodes.len() - 1) as u32)
            }
        };
        self.nodes[parent.0 as usize].children.insert(tokens.into(), id);
        id
    }

    /// Depth of a node in blocks.
    pub fn depth(&self, node: NodeId) -> u32 {
        self.nodes[node.0 as usize].depth
    }

    /// Lists a block for a group.
    pub fn set_block(&mut self, node: NodeId, group: usize, block: BlockId) {
        self.nodes[node.0 as usize].blocks[group] = Some(block);
    }

    /// Forgets an evicted block, and the node with it where nothing else needs it.
    pub fn clear_block(&mut self, node: NodeId, group: usize) {
        self.nodes[node.0 as usize].blocks[group] = None;
        self.prune(node);
    }

    /// Counts one more sequence through a node.
    pub fn add_user(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].users += 1;
    }

    /// Counts one sequence less.
    pub fn remove_user(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].users -= 1;
        self.prune(node);
    }

    /// Whether blocks of a window behind `node` should outlive others, for branches that start near it.
    pub fn is_near_boundary(&self, node: NodeId) -> bool {
        self.nodes[node.0 as usize].near_boundary
    }

    /// Marks `node` as a place where branches start: it and the `blocks - 1` nodes before it are kept longer.
    /// Returns the nodes that were not marked before.
    pub fn mark_boundary(&mut self, node: NodeId, blocks: usize) -> Vec<NodeId> {
        let mut marked = Vec::new();
        let mut next = Some(node);
        for _ in 0..blocks {
            let Some(id) = next.filter(|&id| id != ROOT) else { break };
            let entry = &mut self.nodes[id.0 as usize];
            if !entry.near_boundary {
                entry.near_boundary = true;
                marked.push(id);
            }
            next = entry.parent;
        }
        marked
    }

    fn prune(&mut self, node: NodeId) {
        let mut id = node;
        while id != ROOT {
            let entry = &self.nodes[id.0 as usize];
            let needed =
                entry.users > 0 || !entry.children.is_empty() || entry.blocks.iter().any(Option::is_some);
            let Some(parent) = entry.parent.filter(|_| !needed) else { return };
            let entry = std::mem::take(&mut self.nodes[id.0 as usize]);
            self.nodes[parent.0 as usize].children.remove(&entry.tokens);
            self.unused.push(id);
            id = parent;
        }
    }
}

//! What the layers of one step share, where the backend's operations read it.
#[cfg(feature = "kernels")]
use super::device::DeviceTables;
use super::{Backend, KvPageLayout, OpError, SequencePages};

/// A list of a step on the host, and, where a device's copy of the step holds it, there too.
#[derive(Clone, Copy)]
pub struct StepList<'a, T> {
    pub(super) host: &'a [T],
    #[cfg(feature = "kernels")]
    pub(super) copied: Option<longwick_kernels::View<'a>>,
}

impl<'a, T> From<&'a [T]> for StepList<'a, T> {
    fn from(host: &'a [T]) -> Self {
        Self {
            host,
            #[cfg(feature = "kernels")]
            copied: None,
        }
    }
}

impl<'a, T> From<&'a Vec<T>> for StepList<'a, T> {
    fn from(host: &'a Vec<T>) -> Self {
        host.as_slice().into()
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for StepList<'a, T> {
    fn from(host: &'a [T; N]) -> Self {
        host.as_slice().into()
    }
}

/// Query rows of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRows<'a> {
    /// `[sequences + 1]` row offsets.
    pub cu_seqlens_q: &'a [u32],
    /// `[rows]`: absolute positions, ascending within a sequence.
    pub positions: &'a [u32],
}

/// What a step's layers of one KV group share.
#[derive(Debug, Clone)]
pub struct StepGroup<'a> {
    /// The group's pages.
    pub layout: &'a KvPageLayout,
    /// The layers' window.
    pub window: Option<u32>,
    /// Query heads of the layers.
    pub q_heads: usize,
    /// `[tokens]`: where each token's keys and values go.
    pub slot_mapping: &'a [u64],
    /// One a sequence.
    pub sequences: Vec<SequencePages<'a>>,
}

/// The lists of one step.
#[derive(Debug, Clone)]
pub struct StepLists<'a> {
    /// One a KV group.
    pub groups: Vec<StepGroup<'a>>,
    /// The ways in which rows are taken: all of them, or some.
    pub rows: Vec<StepRows<'a>>,
    /// Inverse frequencies of each rotary embedding.
    pub frequencies: Vec<Vec<f32>>,
}

/// The lists of one step where operations read them: on the CPU as they are, on a device in one copy, with the plans of its attention.
pub struct StepTables<'a> {
    lists: StepLists<'a>,
    #[cfg(feature = "kernels")]
    device: Option<DeviceTables>,
}

impl<'a> StepTables<'a> {
    /// Takes the lists over, and on a device copies them.
    ///
    /// # Errors
    /// On a device [`OpError::Kernel`] when rows do not fit their pages, or no kernel takes the group's heads.
    ///
    /// [`OpError::Kernel`]: OpError
    pub fn new(backend: &Backend, lists: StepLists<'a>) -> Result<Self, OpError> {
        #[cfg(feature = "kernels")]
        let device = match backend {
            Backend::Cpu(_) => None,
            Backend::Device(device) => Some(DeviceTables::new(device, &lists)?),
        };
        #[cfg(not(feature = "kernels"))]
        let Backend::Cpu(_) = backend;
        Ok(Self {
            lists,
            #[cfg(feature = "kernels")]
            device,
        })
    }

    /// Where a group's new keys and values go.
    pub fn slots(&self, group: usize) -> StepList<'_, u64> {
        StepList {
            host: self.lists.groups[group].slot_mapping,
            #[cfg(feature = "kernels")]
            copied: self.device.as_ref().map(|device| device.slots(group)),
        }
    }

    /// Positions of the rows taken in one way.
    pub fn positions(&self, rows: usize) -> StepList<'_, u32> {
        StepList {
            host: self.lists.rows[rows].positions,
            #[cfg(feature = "kernels")]
            copied: self.device.as_ref().map(|device| device.positions(rows)),
        }
    }

    /// Inverse frequencies of a rotary embedding.
    pub fn frequencies(&self, rope: usize) -> StepList<'_, f32> {
        StepList {
            host: &self.lists.frequencies[rope],
            #[cfg(feature = "kernels")]
            copied: self.device.as_ref().map(|device| device.frequencies(rope)),
        }
    }

    /// Rows taken in one way.
    pub fn rows(&self, rows: usize) -> StepRows<'a> {
        self.lists.rows[rows]
    }

    /// The sequences' pages in a group.
    pub fn sequences(&self, group: usize) -> &[SequencePages<'a>] {
        &self.lists.groups[group].sequences
    }

    /// The plan of a group's attention with rows taken in one way, for a device.
    #[cfg(feature = "kernels")]
    pub(super) fn plan(&self, group: usize, rows: usize) -> Option<longwick_kernels::PlanView<'_>> {
        self.device.as_ref().map(|device| device.plan(group, rows))
    }
}

/// A group and a way of taking rows, of a step's tables.
#[derive(Clone, Copy)]
pub struct StepAttention<'a> {
    /// The step's.
    pub tables: &'a StepTables<'a>,
    /// Which group.
    pub group: usize,
    /// Which rows.
    pub rows: usize,
}

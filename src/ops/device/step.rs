//! A step's lists on the device, and the plans of its attention.
use super::{
    DeviceBackend,
    attention::{plan, shape},
    memory::{DeviceMemory, Packed, Parcel},
};
use crate::ops::{OpError, StepLists};
use longwick_kernels::{AttentionPlan, PlanView, View};

/// A plan, and where its words lie.
struct SentPlan {
    plan: AttentionPlan,
    words: Packed<u32>,
}

/// One copy of all lists of a step.
pub(in crate::ops) struct DeviceTables {
    memory: DeviceMemory,
    slots: Vec<Packed<u64>>,
    positions: Vec<Packed<u32>>,
    frequencies: Vec<Packed<f32>>,
    /// Of each group, for each way of taking rows that differs from the first.
    plans: Vec<Vec<SentPlan>>,
    /// Which of a group's plans each way of taking rows has.
    plan_of_rows: Vec<usize>,
}

impl DeviceTables {
    /// Plans the attention of every group, and sends everything over. A plan reads the spans that several sequences have in
    /// common, which their tables show by naming the same blocks, once for all of them.
    pub(in crate::ops) fn new(device: &DeviceBackend, lists: &StepLists<'_>) -> Result<Self, OpError> {
        let mut parcel = Parcel::default();
        let slots = lists.groups.iter().map(|group| parcel.add(group.slot_mapping)).collect();
        let positions = lists.rows.iter().map(|rows| parcel.add(rows.positions)).collect();
        let frequencies = lists.frequencies.iter().map(|list| parcel.add(list)).collect();
        let mut ways = Vec::new();
        let mut plan_of_rows = Vec::new();
        for rows in &lists.rows {
            let place = ways.iter().position(|way| way == rows);
            plan_of_rows.push(place.unwrap_or(ways.len()));
            if place.is_none() {
                ways.push(*rows);
            }
        }
        let mut plans = Vec::with_capacity(lists.groups.len());
        for group in &lists.groups {
            let shape = shape(group.layout, group.q_heads, group.window);
            let mut of_group = Vec::with_capacity(ways.len());
            for &rows in &ways {
                let plan = plan(shape, rows, &group.sequences)?;
                of_group.push(SentPlan { words: parcel.add(plan.words()), plan });
            }
            plans.push(of_group);
        }
        let memory = parcel.send(device)?;
        Ok(Self { memory, slots, positions, frequencies, plans, plan_of_rows })
    }

    pub(in crate::ops) fn slots(&self, group: usize) -> View<'_> {
        self.memory.view(self.slots[group])
    }

    pub(in crate::ops) fn positions(&self, rows: usize) -> View<'_> {
        self.memory.view(self.positions[rows])
    }

    pub(in crate::ops) fn frequencies(&self, rope: usize) -> View<'_> {
        self.memory.view(self.frequencies[rope])
    }

    pub(in crate::ops) fn plan(&self, group: usize, rows: usize) -> PlanView<'_> {
        let SentPlan { plan, words } = &self.plans[group][self.plan_of_rows[rows]];
        // SAFETY: the words lie there since `new` sent them on the stream that every launch goes to, and nothing writes them.
        unsafe { PlanView::copied(plan, self.memory.view(*words)) }
    }
}

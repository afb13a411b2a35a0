//! In which order models are loaded.

/// A kind of work, done by one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Judge labelled contexts.
    Labels,
    Extract,
    Compact,
    FullProbe,
    Judge,
    CompactedProbe,
}

impl Step {
    pub(super) const ALL: [Self; 6] =
        [Self::Labels, Self::Extract, Self::Compact, Self::FullProbe, Self::Judge, Self::CompactedProbe];

    /// Whether it needs compacted histories.
    pub(super) fn needs_compaction(self) -> bool {
        matches!(self, Self::Judge | Self::CompactedProbe)
    }
}

/// Steps that one model does together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phase<M> {
    pub(super) model: M,
    pub(super) steps: Vec<Step>,
}

/// Orders steps so that each comes after what it needs, and that a model is loaded once where that is possible.
pub(super) fn phases<M: Clone + PartialEq>(steps: &[(Step, M)]) -> Vec<Phase<M>> {
    let mut left: Vec<(Step, M)> = steps.to_vec();
    let mut phases = Vec::new();
    while let Some((_, first)) = left.first() {
        let is_source = |step: Step| matches!(step, Step::Extract | Step::Compact);
        // A model can do its steps that need compactions if all that is left to compact and extract is its own.
        let can_finish = |model: &M| {
            let others = left.iter().any(|(step, other)| is_source(*step) && other != model);
            !others || !left.iter().any(|(step, own)| own == model && step.needs_compaction())
        };
        let model =
            left.iter().map(|(_, model)| model).find(|model| can_finish(model)).unwrap_or(first).clone();
        let blocked = left.iter().any(|(step, other)| is_source(*step) && *other != model);
        let taken = |step: &Step, owner: &M| *owner == model && !(blocked && step.needs_compaction());
        let steps: Vec<Step> =
            left.iter().filter(|(step, owner)| taken(step, owner)).map(|(step, _)| *step).collect();
        left.retain(|(step, owner)| !taken(step, owner));
        phases.push(Phase { model, steps });
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use Step::{Compact, CompactedProbe, Extract, FullProbe, Judge, Labels};

    fn order(models: [&'static str; 4]) -> Vec<(&'static str, Vec<Step>)> {
        let [extract, compact, judge, probe] = models;
        let steps = [
            (Labels, judge),
            (Extract, extract),
            (Compact, compact),
            (FullProbe, probe),
            (Judge, judge),
            (CompactedProbe, probe),
        ];
        phases(&steps).into_iter().map(|phase| (phase.model, phase.steps)).collect()
    }

    #[test]
    fn one_model_is_one_phase() {
        assert_eq!(
            order(["a"; 4]),
            [("a", vec![Labels, Extract, Compact, FullProbe, Judge, CompactedProbe])]
        );
    }

    #[test]
    fn every_model_is_loaded_once_where_its_steps_allow() {
        let four = order(["e", "c", "j", "p"]);
        assert_eq!(four.iter().map(|(model, _)| *model).collect::<Vec<_>>(), ["e", "c", "j", "p"]);
        let prober_compacts = order(["e", "p", "j", "p"]);
        assert_eq!(
            prober_compacts,
            [
                ("e", vec![Extract]),
                ("p", vec![Compact, FullProbe, CompactedProbe]),
                ("j", vec![Labels, Judge])
            ]
        );
    }

    #[test]
    fn a_circle_is_broken_by_a_second_load() {
        let steps = order(["a", "b", "a", "b"]);
        assert_eq!(steps.iter().map(|(_, steps)| steps.len()).sum::<usize>(), 6);
        let at = |wanted: Step| steps.iter().position(|(_, steps)| steps.contains(&wanted)).unwrap();
        for late in [Judge, CompactedProbe] {
            assert!(at(late) >= at(Extract) && at(late) >= at(Compact), "{steps:?}");
        }
        assert!(steps.len() <= 3, "{steps:?}");
    }
}

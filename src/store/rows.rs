//! From results to rows: what one compactor made of one setting's instances.

use super::{RunStore, StoreError};
use crate::compint::Condition;
use crate::compint::metrics::{Failures, ProbeAnswer, ResultRow};
use crate::compint::runner::RunPlan;
use crate::history::FlatMessage;
use crate::tasks::Outcome;
use crate::tasks::compact::CompactionResult;
use crate::tasks::extract::Extraction;
use crate::tasks::judge::Verdict;
use crate::tasks::probe::{ChoiceOutcome, Letter, ProbeOutcome};
use rusqlite::{OptionalExtension, params};
use serde::de::DeserializeOwned;

/// One instance under one compactor.
pub(super) struct Measurement {
    pub row: ResultRow,
    pub failures: Failures,
    pub sc_text: String,
    pub compaction: Option<CompactionResult>,
    pub verdict: Option<Verdict>,
    pub extraction: Option<Extraction>,
    /// Written answers by [`Condition::index`].
    pub answers: [Option<ProbeOutcome>; 4],
    /// Scored letters by [`Condition::index`].
    pub choices: [Option<ChoiceOutcome>; 4],
}

impl Measurement {
    /// Whether anything failed.
    pub fn failed(&self) -> bool {
        self.failures.compaction || self.failures.judge || self.failures.probes.contains(&true)
    }

    /// Answers that cannot be read: the verdict's and the probes'.
    pub fn unscored(&self) -> usize {
        fn is<T>(outcome: &Outcome<T>) -> bool {
            matches!(outcome, Outcome::Unscored { .. })
        }
        let verdict = self.verdict.iter().filter(|verdict| is(&verdict.retained)).count();
        let answers = self.answers.iter().flatten().filter(|answer| is(&answer.letter)).count();
        verdict + answers + self.choices.iter().flatten().filter(|choice| is(&choice.letter)).count()
    }
}

impl RunStore {
    /// The plan of the last session that began; `None` in a new database.
    pub(super) fn plan(&self) -> Result<Option<RunPlan>, StoreError> {
        let Some(text) = self.meta("plan")? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| self.damaged("the plan", error))
    }

    /// The instances of a setting under a compactor, in order.
    pub(super) fn measurements(
        &self,
        plan: &RunPlan,
        setting: &str,
        compactor: &str,
    ) -> Result<Vec<Measurement>, StoreError> {
        let query = "SELECT ordinal, row, sc_text FROM instances WHERE setting = ?1 ORDER BY ordinal";
        let mut query = self.wrap(self.connection.prepare(query))?;
        let rows = query.query_map([setting], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let rows: rusqlite::Result<Vec<(i64, String, String)>> = rows.and_then(Iterator::collect);
        let mut measurements = Vec::new();
        for (ordinal, row, sc_text) in self.wrap(rows)? {
            let row = serde_json::from_str(&row)
                .map_err(|error| self.damaged(format!("instance {ordinal} of {setting}"), error))?;
            let cell = CellPlace { setting, ordinal, compactor };
            measurements.push(self.measurement(plan, &cell, row, sc_text)?);
        }
        Ok(measurements)
    }

    fn measurement(
        &self,
        plan: &RunPlan,
        place: &CellPlace<'_>,
        mut row: ResultRow,
        sc_text: String,
    ) -> Result<Measurement, StoreError> {
        let compaction: Option<CompactionResult> = self.cell(place, "compact")?;
        let verdict: Option<Verdict> = self.cell(place, "judge")?;
        let mut failures = Failures {
            compaction: compaction.as_ref().is_none_or(|result| result.failure.is_some()),
            judge: verdict.as_ref().is_some_and(|verdict| is_failed(&verdict.retained)),
            probes: [false; 4],
        };
        row.compacted =
            compaction.iter().flat_map(|result| &result.messages).map(FlatMessage::from).collect();
        row.retention = verdict.as_ref().and_then(|verdict| verdict.retained.answer());
        let mut answers: [Option<ProbeOutcome>; 4] = Default::default();
        let mut choices: [Option<ChoiceOutcome>; 4] = Default::default();
        for &condition in &plan.conditions {
            let own = if condition.depends_on_compactor() { place.compactor } else { "" };
            let place = CellPlace { compactor: own, ..*place };
            let (answer, choice) = (&mut answers[condition.index()], &mut choices[condition.index()]);
            if plan.generates {
                *answer = self.cell(&place, &format!("generate:{condition}"))?;
            }
            if plan.chooses {
                *choice = self.cell(&place, &format!("choice:{condition}"))?;
            }
            let (letter, output) = match (&*answer, &*choice) {
                (Some(answer), _) => (Some(&answer.letter), answer.output.clone()),
                (None, Some(choice)) if !plan.generates => {
                    let letter = choice.letter.answer();
                    (Some(&choice.letter), letter.map_or("", Letter::as_str).to_owned())
                }
                _ => (None, String::new()),
            };
            failures.probes[condition.index()] = letter.is_some_and(is_failed);
            let letter = letter.and_then(Outcome::answer);
            let compliant = letter.map(|letter| letter.as_str() == row.compliant_letter.as_str());
            // The columns stand in every row, as conpact has them, whatever failed.
            row.probes[condition.index()] = Some(ProbeAnswer { output, compliant });
        }
        let extraction = self.cell(&CellPlace { compactor: "", ..*place }, "extract")?;
        Ok(Measurement { row, failures, sc_text, compaction, verdict, extraction, answers, choices })
    }

    fn cell<T: DeserializeOwned>(&self, place: &CellPlace<'_>, role: &str) -> Result<Option<T>, StoreError> {
        let query = "SELECT results.key, payload FROM cells JOIN results ON results.key = cells.key \
                     WHERE setting = ?1 AND ordinal = ?2 AND compactor = ?3 AND role = ?4";
        let found = self.connection.prepare_cached(query).and_then(|mut query| {
            let place = params![place.setting, place.ordinal, place.compactor, role];
            query.query_row(place, |row| Ok((row.get(0)?, row.get(1)?))).optional()
        });
        let Some((key, payload)): Option<(String, String)> = self.wrap(found)? else { return Ok(None) };
        serde_json::from_str(&payload).map(Some).map_err(|error| self.damaged(format!("result {key}"), error))
    }
}

#[derive(Clone, Copy)]
struct CellPlace<'a> {
    setting: &'a str,
    ordinal: i64,
    compactor: &'a str,
}

fn is_failed<T>(outcome: &Outcome<T>) -> bool {
    matches!(outcome, Outcome::Failed { .. })
}

/// `full_with_sc` and so on, of the conditions that were asked for.
pub(super) fn asked(plan: &RunPlan) -> impl Iterator<Item = Condition> + '_ {
    plan.conditions.iter().copied()
}

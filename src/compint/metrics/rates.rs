//! Counts of yes and no, the rates they give, and Wilson's interval.

use crate::compint::Condition;

/// The 97.5th percentile of the standard normal distribution, for two-sided 95% intervals.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// How many answers there are, and how many of them are yes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Answers that are yes.
    pub yes: u64,
    /// All answers.
    pub of: u64,
}

/// A low and a high end, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The low end.
    pub low_pct: f64,
    /// The high end.
    pub high_pct: f64,
}

impl Count {
    /// Counts the answers that are there.
    pub fn of(answers: impl IntoIterator<Item = Option<bool>>) -> Self {
        let mut count = Self::default();
        answers.into_iter().flatten().for_each(|yes| count.add(yes));
        count
    }

    /// Counts one answer.
    pub fn add(&mut self, yes: bool) {
        self.yes += u64::from(yes);
        self.of += 1;
    }

    /// Adds another count's answers.
    pub fn merge(&mut self, other: Self) {
        self.yes += other.yes;
        self.of += other.of;
    }

    /// 100 x yes / all; `None` without an answer. The product is taken in integers, as Python takes it.
    pub fn rate_pct(self) -> Option<f64> {
        (self.of > 0).then(|| (100 * self.yes) as f64 / self.of as f64)
    }

    /// Wilson's 95% interval, in percent; `None` without an answer.
    pub fn wilson_pct(self) -> Option<Interval> {
        wilson(self, Z_95)
    }
}

/// Wilson's score interval of a proportion, in percent; `z` is the normal quantile.
///
/// # Source
/// Wilson 1927. Unlike the normal interval it stays within 0 and 100 and is not empty at either end.
pub fn wilson(count: Count, z: f64) -> Option<Interval> {
    if count.of == 0 {
        return None;
    }
    let n = count.of as f64;
    let p = count.yes as f64 / n;
    let denominator = 1.0 + z * z / n;
    let centre = (p + z * z / (2.0 * n)) / denominator;
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / denominator;
    // At 0 and at n the exact end is 0 or 100; rounding must not put it beyond.
    let low = if count.yes == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if count.yes == count.of { 1.0 } else { (centre + half).min(1.0) };
    Some(Interval { low_pct: 100.0 * low, high_pct: 100.0 * high })
}

/// Retention and compliance counts of a set of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The judge's verdicts.
    pub retention: Count,
    /// Verdicts, with a failed compaction as a loss.
    pub retention_with_failures: Count,
    /// Compliance by [`Condition::index`].
    pub compliance: [Count; 4],
}

impl Tally {
    /// Adds another tally's counts.
    pub fn merge(&mut self, other: &Self) {
        self.retention.merge(other.retention);
        self.retention_with_failures.merge(other.retention_with_failures);
        for (mine, theirs) in self.compliance.iter_mut().zip(other.compliance) {
            mine.merge(theirs);
        }
    }

    /// Compliance under a condition, in percent.
    pub fn compliance_pct(&self, condition: Condition) -> Option<f64> {
        self.compliance[condition.index()].rate_pct()
    }

    /// The paper's equation 8 in percent: how much of what the upper bound gains over the history without the
    /// constraint is left after compaction.
    ///
    /// `None` where a rate is missing (conpact raises there) or the upper bound gains nothing.
    pub fn effective_retention_pct(&self) -> Option<f64> {
        let without = self.compliance_pct(Condition::FullWithoutSc)?;
        let gain = self.compliance_pct(Condition::Compaction)? - without;
        let room = self.compliance_pct(Condition::UpperBound)? - without;
        (room != 0.0).then(|| 100.0 * gain / room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The ends are the two roots of (p - q)^2 = z^2 q (1 - q) / n, checked with the quadratic formula in python3.
    #[test]
    fn wilson_ends_are_the_roots_of_its_equation() {
        for (yes, of) in [(1, 2), (3, 10), (11, 30), (97, 100), (1, 750)] {
            let interval = wilson(Count { yes, of }, Z_95).unwrap();
            let p = yes as f64 / of as f64;
            for q in [interval.low_pct / 100.0, interval.high_pct / 100.0] {
                let equation = (p - q).powi(2) - Z_95 * Z_95 * q * (1.0 - q) / of as f64;
                assert!(equation.abs() < 1e-12, "{yes}/{of} at {q}: {equation}");
            }
            assert!(interval.low_pct < 100.0 * p && 100.0 * p < interval.high_pct);
        }
    }

    #[test]
    fn wilson_at_the_ends_and_without_answers() {
        assert_eq!(None, wilson(Count::default(), Z_95));
        let none = wilson(Count { yes: 0, of: 10 }, Z_95).unwrap();
        let all = wilson(Count { yes: 10, of: 10 }, Z_95).unwrap();
        assert_eq!((0.0, 100.0), (none.low_pct, all.high_pct));
        // 10 of 10: z^2 / (n + z^2) = 27.7533%.
        assert!((none.high_pct - 27.7532799862889).abs() < 1e-9, "{}", none.high_pct);
        assert!((all.low_pct + none.high_pct - 100.0).abs() < 1e-9);
    }

    #[test]
    fn effective_retention_needs_all_rates_and_room() {
        let count = |yes, of| Count { yes, of };
        let mut tally = Tally {
            compliance: [count(9, 10), count(2, 10), count(5, 10), count(8, 10)],
            ..Tally::default()
        };
        assert_eq!(Some(50.0), tally.effective_retention_pct());
        tally.compliance[3] = count(2, 10);
        assert_eq!(None, tally.effective_retention_pct());
        tally.compliance[3] = count(0, 0);
        assert_eq!(None, tally.effective_retention_pct());
    }
}

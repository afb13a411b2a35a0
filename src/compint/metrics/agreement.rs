//! [`Agreement`]: a judge's verdicts against labels.

use super::rates::Count;

/// The four cells of a judge against labels, and the verdicts there are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Labelled yes, judged yes.
    pub true_positive: u64,
    /// Labelled yes, judged no.
    pub false_negative: u64,
    /// Labelled no, judged yes.
    pub false_positive: u64,
    /// Labelled no, judged no.
    pub true_negative: u64,
    /// Labelled, but the judge gave no verdict; in none of the rates.
    pub unscored: u64,
}

impl Agreement {
    /// Counts pairs of (label, verdict).
    pub fn of(pairs: impl IntoIterator<Item = (bool, Option<bool>)>) -> Self {
        let mut agreement = Self::default();
        for (label, verdict) in pairs {
            let cell = match (label, verdict) {
                (_, None) => &mut agreement.unscored,
                (true, Some(true)) => &mut agreement.true_positive,
                (true, Some(false)) => &mut agreement.false_negative,
                (false, Some(true)) => &mut agreement.false_positive,
                (false, Some(false)) => &mut agreement.true_negative,
            };
            *cell += 1;
        }
        agreement
    }

    /// Verdicts that equal their label, of all verdicts.
    pub fn agreement(&self) -> Count {
        Count { yes: self.true_positive + self.true_negative, of: self.scored() }
    }

    /// The true-positive rate: yes verdicts among those labelled yes.
    pub fn true_positive_rate(&self) -> Count {
        Count { yes: self.true_positive, of: self.true_positive + self.false_negative }
    }

    /// The true-negative rate: no verdicts among those labelled no.
    pub fn true_negative_rate(&self) -> Count {
        Count { yes: self.true_negative, of: self.true_negative + self.false_positive }
    }

    /// Cohen's kappa: agreement beyond what the two marginals give by chance, 1 at most. `None` without a verdict, and
    /// where label and verdict are one and the same constant, so that chance alone agrees fully.
    ///
    /// # Source
    /// Cohen 1960.
    pub fn kappa(&self) -> Option<f64> {
        let n = self.scored() as f64;
        let labelled_yes = (self.true_positive + self.false_negative) as f64;
        let judged_yes = (self.true_positive + self.false_positive) as f64;
        // Both sides are multiplied by n squared, which keeps them whole numbers.
        let observed = (self.true_positive + self.true_negative) as f64 * n;
        let chance = labelled_yes * judged_yes + (n - labelled_yes) * (n - judged_yes);
        let room = n * n - chance;
        (room != 0.0).then(|| (observed - chance) / room)
    }

    fn scored(&self) -> u64 {
        self.true_positive + self.false_negative + self.false_positive + self.true_negative
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kappa_of_cells() {
        // The textbook table 20, 5, 10, 15: observed 0.7, chance 0.5, kappa 0.4.
        let table = Agreement {
            true_positive: 20,
            false_negative: 5,
            false_positive: 10,
            true_negative: 15,
            unscored: 0,
        };
        assert!((table.kappa().unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(Count { yes: 35, of: 50 }, table.agreement());
        assert_eq!(Count { yes: 20, of: 25 }, table.true_positive_rate());
        assert_eq!(Count { yes: 15, of: 25 }, table.true_negative_rate());
    }

    #[test]
    fn constants_have_no_kappa_and_opposites_have_minus_one() {
        assert_eq!(None, Agreement::default().kappa());
        assert_eq!(None, Agreement::of([(true, Some(true)); 3]).kappa());
        assert_eq!(Some(-1.0), Agreement::of([(true, Some(false)), (false, Some(true))]).kappa());
        let unscored = Agreement::of([(true, None), (true, Some(true)), (false, Some(false))]);
        assert_eq!((1, Some(1.0)), (unscored.unscored, unscored.kappa()));
    }
}

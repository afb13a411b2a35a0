//! [`ChoiceScores`]: how likely each of several continuations is.

/// Log-probability of each continuation, and the three ways to compare them.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ChoiceScores {
    /// One a continuation, in order.
    pub choices: Vec<ChoiceScore>,
}

/// One continuation's score.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ChoiceScore {
    /// Sum of the tokens' natural log-probabilities.
    pub sum: f64,
    /// `sum / tokens` (0 for an empty continuation).
    pub per_token: f64,
    /// Tokens counted.
    pub tokens: usize,
    /// exp(sum) normalised over the choices (0 for all when every sum is minus infinity).
    pub probability: f64,
}

impl ChoiceScores {
    /// From per-token natural log-probabilities, one list a continuation.
    ///
    /// Sums run in f64 in token order, so equal inputs give equal bits.
    pub fn from_logprobs(logprobs: &[Vec<f32>]) -> Self {
        let sums: Vec<f64> =
            logprobs.iter().map(|tokens| tokens.iter().map(|&logprob| f64::from(logprob)).sum()).collect();
        let largest = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Subtracting the largest keeps exp() from underflowing for long continuations, whose sums lie in the hundreds.
        let weights: Vec<f64> = sums
            .iter()
            .map(|&sum| if largest == f64::NEG_INFINITY { 0.0 } else { (sum - largest).exp() })
            .collect();
        let total: f64 = weights.iter().sum();
        let choices = logprobs
            .iter()
            .zip(sums.iter().zip(&weights))
            .map(|(tokens, (&sum, &weight))| ChoiceScore {
                sum,
                per_token: if tokens.is_empty() { 0.0 } else { sum / tokens.len() as f64 },
                tokens: tokens.len(),
                probability: if total > 0.0 { weight / total } else { 0.0 },
            })
            .collect();
        Self { choices }
    }

    /// Index of the continuation with the greatest `sum`; ties go to the first. `None` without choices.
    pub fn best(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (index, choice) in self.choices.iter().enumerate() {
            if best.is_none_or(|other| choice.sum > self.choices[other].sum) {
                best = Some(index);
            }
        }
        best
    }

    /// `sum` of choice `first` minus `sum` of choice `second`; `None` where either does not exist.
    pub fn margin(&self, first: usize, second: usize) -> Option<f64> {
        Some(self.choices.get(first)?.sum - self.choices.get(second)?.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_means_and_probabilities() {
        let scores = ChoiceScores::from_logprobs(&[vec![-1.0, -2.0], vec![-3.0]]);
        assert_eq!(scores.choices[0].sum, -3.0);
        assert_eq!(scores.choices[0].per_token, -1.5);
        assert_eq!(scores.choices[0].tokens, 2);
        assert_eq!(scores.choices[1].per_token, -3.0);
        assert_eq!(scores.choices[0].probability, 0.5);
        assert_eq!(scores.best(), Some(0));
        assert_eq!(scores.margin(0, 1), Some(0.0));
        assert_eq!(scores.margin(0, 2), None);
    }

    #[test]
    fn long_continuations_do_not_underflow() {
        let scores = ChoiceScores::from_logprobs(&[vec![-10.0; 200], vec![-10.0; 199]]);
        let expected = 1.0 / (1.0 + (-10.0f64).exp());
        assert!((scores.choices[1].probability - expected).abs() < 1e-12);
        assert_eq!(scores.best(), Some(1));
    }

    #[test]
    fn nothing_possible_and_nothing_asked() {
        let scores = ChoiceScores::from_logprobs(&[vec![f32::NEG_INFINITY], vec![f32::NEG_INFINITY]]);
        assert!(scores.choices.iter().all(|choice| choice.probability == 0.0));
        assert_eq!(ChoiceScores::from_logprobs(&[]).best(), None);
        assert_eq!(ChoiceScores::from_logprobs(&[vec![]]).choices[0].per_token, 0.0);
    }
}

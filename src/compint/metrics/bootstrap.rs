//! Percentile bootstrap over haystacks.
//!
//! Results of one history are not independent of each other, so whole histories are drawn, not results.

use super::rates::{Interval, Tally};
use crate::compint::PyRandom;

/// How many resamples an interval is taken from, unless a run says otherwise.
pub const RESAMPLES: usize = 2000;

/// The tallies of `resamples` draws, with replacement, of as many clusters as there are. Empty for fewer than two
/// clusters, which say nothing about the spread between them.
pub fn resample(clusters: &[Tally], resamples: usize, seed: u64) -> Vec<Tally> {
    if clusters.len() < 2 {
        return Vec::new();
    }
    let mut random = PyRandom::new(seed);
    let mut draw = || {
        let mut tally = Tally::default();
        for _ in 0..clusters.len() {
            tally.merge(&clusters[random.randbelow(clusters.len() as u64) as usize]);
        }
        tally
    };
    (0..resamples).map(|_| draw()).collect()
}

/// The 2.5th and 97.5th percentiles of a statistic over resamples, by linear interpolation. Resamples where it is
/// undefined do not take part; `None` where it is undefined in all.
pub fn percentile_interval(
    resampled: &[Tally],
    statistic: impl Fn(&Tally) -> Option<f64>,
) -> Option<Interval> {
    let mut values: Vec<f64> = resampled.iter().filter_map(statistic).collect();
    values.sort_by(f64::total_cmp);
    Some(Interval { low_pct: percentile(&values, 0.025)?, high_pct: percentile(&values, 0.975)? })
}

/// `values` ascending; `fraction` in [0, 1].
fn percentile(values: &[f64], fraction: f64) -> Option<f64> {
    let place = fraction * values.len().checked_sub(1)? as f64;
    let below = place.floor();
    let low = *values.get(below as usize)?;
    let high = *values.get(place.ceil() as usize)?;
    Some(low + (high - low) * (place - below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compint::metrics::rates::Count;

    fn cluster(yes: u64, of: u64) -> Tally {
        Tally { retention: Count { yes, of }, ..Tally::default() }
    }

    #[test]
    fn percentiles_interpolate() {
        assert_eq!(None, percentile(&[], 0.5));
        assert_eq!(Some(3.0), percentile(&[3.0], 0.975));
        assert_eq!(Some(1.1), percentile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.025));
    }

    #[test]
    fn equal_clusters_have_no_spread_and_one_has_no_interval() {
        let rate = |tally: &Tally| tally.retention.rate_pct();
        let interval = percentile_interval(&resample(&[cluster(3, 4); 5], 200, 1), rate).unwrap();
        assert_eq!((75.0, 75.0), (interval.low_pct, interval.high_pct));
        assert_eq!(None, percentile_interval(&resample(&[cluster(3, 4)], 200, 1), rate));
    }

    /// Clusters all yes or all no: the rate of a resample is binomial, whose percentiles are known.
    #[test]
    fn spread_is_that_of_whole_clusters() {
        let clusters: Vec<Tally> =
            (0..100).map(|index| cluster(if index < 50 { 15 } else { 0 }, 15)).collect();
        let resampled = resample(&clusters, 4000, 7);
        let interval = percentile_interval(&resampled, |tally| tally.retention.rate_pct()).unwrap();
        // Binomial(100, 1/2): 2.5th percentile 40, 97.5th 60.
        assert!(
            (interval.low_pct - 40.0).abs() <= 1.0 && (interval.high_pct - 60.0).abs() <= 1.0,
            "{interval:?}"
        );
        assert_eq!(resampled, resample(&clusters, 4000, 7));
        assert_ne!(resampled, resample(&clusters, 4000, 8));
    }
}

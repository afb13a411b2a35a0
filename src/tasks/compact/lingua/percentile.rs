//! Percentiles as numpy takes them.

/// The `percent`-th percentile of `values` with linear interpolation; `None` of nothing.
///
/// A threshold decides by its last bit, so the interpolation is done in the type that numpy would do it in: f64 where
/// `is_wide`, else f32, whose values `values` then are.
///
/// # Source
/// Hyndman and Fan 1996, definition 7; arithmetic of numpy 2's `percentile`.
pub(super) fn percentile(values: &[f64], is_wide: bool, percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = last as f64 * (percent as f64 / 100.0);
    if place >= last as f64 {
        return Some(sorted[last]);
    }
    let below = place.floor();
    let (low, high) = (sorted[below as usize], sorted[below as usize + 1]);
    let share = place - below;
    if is_wide {
        let step = high - low;
        return Some(if share >= 0.5 { high - step * (1.0 - share) } else { low + step * share });
    }
    let (low, high) = (low as f32, high as f32);
    let step = high - low;
    let between = if share >= 0.5 { high - step * (1.0 - share) as f32 } else { low + step * share as f32 };
    Some(f64::from(between))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_numpys() {
        // Expected values printed by numpy 2.4.6.
        let values = [0.1_f32, 0.7, 0.3, 0.2, 0.9, 0.35].map(f64::from);
        for (percent, narrow, wide) in [
            (0, 0.10000000149011612, 0.10000000149011612),
            (37, 0.2849999964237213, 0.28500001057982444),
            (50, 0.32499998807907104, 0.32500000298023224),
            (90, 0.7999999523162842, 0.7999999821186066),
            (100, 0.8999999761581421, 0.8999999761581421),
        ] {
            assert_eq!(percentile(&values, false, percent), Some(narrow), "{percent}");
            assert_eq!(percentile(&values, true, percent), Some(wide), "{percent}");
        }
        assert_eq!(percentile(&[0.25], false, 99), Some(0.25));
        assert_eq!(percentile(&[], true, 50), None);
    }
}

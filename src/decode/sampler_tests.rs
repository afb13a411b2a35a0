use super::*;
use toktrie::SimpleVob;

fn params(temperature: f32, top_k: usize, top_p: f32) -> SamplingParams {
    SamplingParams { temperature, top_k, top_p, seed: 7 }
}

fn allow(size: usize, tokens: &[u32]) -> SimpleVob {
    let mut set = SimpleVob::alloc(size);
    for &token in tokens {
        set.allow_token(token);
    }
    set
}

/// How often each token comes over `draws` positions.
fn frequencies(logits: &[f32], params: &SamplingParams, draws: u64) -> Vec<f64> {
    let mut counts = vec![0.0; logits.len()];
    for position in 0..draws {
        counts[sample(logits, params, 1, position, None).unwrap() as usize] += 1.0 / draws as f64;
    }
    counts
}

#[test]
fn greedy_takes_the_largest_and_ties_go_to_the_lower_id() {
    let greedy = SamplingParams::default();
    assert_eq!(sample(&[0.0, 2.0, 2.0, 1.0], &greedy, 0, 0, None).unwrap(), 1);
    assert_eq!(sample(&[0.0, -0.0], &greedy, 0, 0, None).unwrap(), 0);
    assert_eq!(sample(&[-0.0, 0.0], &greedy, 0, 0, None).unwrap(), 0);
}

#[test]
fn a_grammar_restricts_and_padded_rows_are_never_drawn() {
    let logits = [9.0, 1.0, 2.0, 99.0, 99.0];
    let allowed = allow(3, &[1, 2]);
    for temperature in [0.0, 1.0] {
        let token = sample(&logits, &params(temperature, 1, 1.0), 0, 0, Some(&allowed)).unwrap();
        assert_eq!(token, 2);
    }
}

#[test]
fn errors_are_typed() {
    let greedy = SamplingParams::default();
    let nan = sample(&[0.0, f32::NAN], &greedy, 0, 5, None);
    assert_eq!(nan, Err(DecodeError::NotANumber { token: 1, position: 5 }));
    assert_eq!(
        sample(&[f32::INFINITY], &greedy, 0, 5, None),
        Err(DecodeError::NotANumber { token: 0, position: 5 })
    );
    // A NaN that the grammar forbids cannot be drawn, so it does no harm.
    assert_eq!(sample(&[0.0, f32::NAN], &greedy, 0, 5, Some(&allow(2, &[0]))), Ok(0));
    let none = DecodeError::NoCandidate { position: 5, allowed: 0, vocabulary: 2 };
    assert_eq!(sample(&[0.0, 1.0], &greedy, 0, 5, Some(&allow(2, &[]))), Err(none));
    let none = DecodeError::NoCandidate { position: 5, allowed: 2, vocabulary: 2 };
    let warm = params(1.0, 0, 1.0);
    assert_eq!(sample(&[f32::NEG_INFINITY; 2], &warm, 0, 5, None), Err(none.clone()));
    assert_eq!(sample(&[f32::NEG_INFINITY; 2], &greedy, 0, 5, None), Err(none));
    for bad in [params(-1.0, 0, 1.0), params(f32::NAN, 0, 1.0), params(1.0, 0, 0.0), params(1.0, 0, 1.5)] {
        assert!(matches!(sample(&[0.0], &bad, 0, 0, None), Err(DecodeError::Parameter { .. })));
    }
}

#[test]
fn draws_follow_the_distribution() {
    let probabilities = [0.5f32, 0.3, 0.15, 0.05];
    let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
    let found = frequencies(&logits, &params(1.0, 0, 1.0), 40_000);
    for (found, expected) in found.iter().zip(probabilities) {
        // Four standard deviations of a frequency over 40,000 draws are at most 0.01.
        assert!((found - f64::from(expected)).abs() < 0.01, "{found} {expected}");
    }
    let hot = frequencies(&logits, &params(2.0, 0, 1.0), 40_000);
    let total: f32 = probabilities.iter().map(|p| p.sqrt()).sum();
    for (found, p) in hot.iter().zip(probabilities) {
        assert!((found - f64::from(p.sqrt() / total)).abs() < 0.01);
    }
}

#[test]
fn top_k_and_top_p_cut_the_tail() {
    let logits: Vec<f32> = [0.5f32, 0.3, 0.15, 0.05].iter().map(|p| p.ln()).collect();
    let found = frequencies(&logits, &params(1.0, 2, 1.0), 10_000);
    assert_eq!((found[2], found[3]), (0.0, 0.0));
    assert!((found[0] - 0.625).abs() < 0.02);
    // 0.5 + 0.3 reaches 0.7, so the nucleus is the first two; 0.81 needs the third.
    assert_eq!(frequencies(&logits, &params(1.0, 0, 0.7), 10_000)[2], 0.0);
    let wider = frequencies(&logits, &params(1.0, 0, 0.81), 10_000);
    assert!(wider[2] > 0.1 && wider[3] == 0.0);
    // A tie at the edge of top-k keeps the lower ids.
    let tied = frequencies(&[1.0, 1.0, 1.0, 1.0], &params(1.0, 2, 1.0), 1_000);
    assert_eq!((tied[2], tied[3]), (0.0, 0.0));
    assert!(tied[0] > 0.3 && tied[1] > 0.3);
}

#[test]
fn the_nucleus_grows_past_the_sorted_head() {
    // 4,000 equal logits: 90% of the mass is 3,600 tokens, more than the first two heads hold.
    let found = frequencies(&vec![0.0; 4_000], &params(1.0, 0, 0.9), 20_000);
    assert!(found[3_601..].iter().all(|&frequency| frequency == 0.0));
    assert!(found[3_000..3_599].iter().sum::<f64>() > 0.1);
}

#[test]
fn draws_depend_on_seed_key_and_position_alone() {
    let logits = vec![0.0; 1_000];
    let warm = params(1.0, 0, 1.0);
    let first: Vec<u32> =
        (0..50).map(|position| sample(&logits, &warm, 3, position, None).unwrap()).collect();
    let again: Vec<u32> =
        (0..50).rev().map(|position| sample(&logits, &warm, 3, position, None).unwrap()).collect();
    assert!(first.iter().eq(again.iter().rev()));
    let other_key: Vec<u32> =
        (0..50).map(|position| sample(&logits, &warm, 4, position, None).unwrap()).collect();
    let other_seed = SamplingParams { seed: 8, ..warm };
    let other_seed: Vec<u32> =
        (0..50).map(|position| sample(&logits, &other_seed, 3, position, None).unwrap()).collect();
    assert_ne!(first, other_key);
    assert_ne!(first, other_seed);
    // Published value of SplitMix64 for state 0, so that stored runs stay reproducible.
    assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    assert!((0..10_000).all(|position| (0.0..1.0).contains(&uniform(1, 2, position))));
}

use super::*;
use crate::ops::testing::{Random, backends, bits};
use candle_core::Device;

fn matrix(elements: Vec<f32>, rows: usize) -> Tensor {
    let n = elements.len() / rows;
    Tensor::from_vec(elements, (rows, n), &Device::Cpu).unwrap()
}

fn summed(backend: &Backend, routing: &Routing, outputs: &[Tensor], n: usize) -> Vec<f32> {
    let sum = weighted_sum(backend, routing, outputs, n).unwrap();
    sum.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn ties_go_to_the_lower_index() {
    let logits = matrix(vec![1.0, 3.0, -0.0, 3.0, 0.0, 3.0], 1);
    let routing = route(&backends()[0], &logits, 2, true).unwrap();
    let chosen: Vec<usize> = routing.groups().iter().map(|group| group.expert).collect();
    assert_eq!((chosen, &routing.weights[..]), (vec![1, 3], &[0.5, 0.5][..]));
    let routing = route(&backends()[0], &logits, 5, true).unwrap();
    let chosen: Vec<usize> = routing.groups().iter().map(|group| group.expert).collect();
    assert_eq!(chosen, [0, 1, 2, 3, 5], "of the two zeros the first");
}

#[test]
fn weights_are_a_softmax_over_all_or_over_the_chosen() {
    let logits = vec![0.5_f32, -1.0, 2.0, 1.25];
    let exact: Vec<f64> = logits.iter().map(|&logit| f64::from(logit).exp()).collect();
    let all: f64 = exact.iter().sum();
    for (normalises, sum) in [(false, all), (true, exact[2] + exact[3])] {
        let routing = route(&backends()[0], &matrix(logits.clone(), 1), 2, normalises).unwrap();
        let expected = [(exact[2] / sum) as f32, (exact[3] / sum) as f32];
        for (found, expected) in routing.weights.iter().zip(expected) {
            assert!((found - expected).abs() <= f32::EPSILON * expected, "{found} for {expected}");
        }
    }
}

#[test]
fn rows_are_grouped_by_expert() {
    let logits = matrix(vec![9.0, 0.0, 5.0, 0.0, 0.0, 9.0, 5.0, 0.0, 9.0, 0.0, 0.0, 5.0], 3);
    let routing = route(&backends()[0], &logits, 2, true).unwrap();
    let groups: Vec<_> = routing.groups().iter().map(|group| (group.expert, group.rows.clone())).collect();
    assert_eq!(groups, [(0, vec![0, 2]), (1, vec![1]), (2, vec![0, 1]), (3, vec![2])]);
}

/// The sum against one row at a time, on every backend, bit for bit.
#[test]
fn a_row_does_not_depend_on_the_others() {
    let (rows, experts, per_row, n) = (70, 12, 5, 37);
    let mut random = Random::new(3);
    let logits = random.vector(rows * experts);
    let value =
        |expert: usize, row: usize| -> Vec<f32> { Random::new((expert * 1_000 + row) as u64).vector(n) };
    for backend in backends() {
        let outputs = |routing: &Routing, first_row: usize| -> Vec<Tensor> {
            let of_group = |group: &ExpertGroup| {
                let rows = group.rows.iter().flat_map(|&row| value(group.expert, first_row + row as usize));
                matrix(rows.collect(), group.rows.len())
            };
            routing.groups().iter().map(of_group).collect()
        };
        let routing = route(&backend, &matrix(logits.clone(), rows), per_row, true).unwrap();
        let together = summed(&backend, &routing, &outputs(&routing, 0), n);
        for row in 0..rows {
            let logits = logits[row * experts..(row + 1) * experts].to_vec();
            let routing = route(&backend, &matrix(logits.clone(), 1), per_row, true).unwrap();
            let alone = summed(&backend, &routing, &outputs(&routing, row), n);
            assert_eq!(bits(&alone), bits(&together[row * n..(row + 1) * n]), "row {row}");
            let mut ranked: Vec<usize> = (0..experts).collect();
            ranked.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
            let mut expected = vec![0.0_f32; n];
            for (rank, &expert) in ranked[..per_row].iter().enumerate() {
                for (sum, value) in expected.iter_mut().zip(value(expert, row)) {
                    *sum += routing.weights[rank] * value;
                }
            }
            assert_eq!(alone, expected, "row {row}: order of rank");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let backend = &backends()[0];
    let logits = matrix(vec![0.0; 6], 2);
    for per_row in [0, 4] {
        let refused = route(backend, &logits, per_row, true);
        assert!(matches!(refused, Err(OpError::Value { argument: "per_row", .. })));
    }
    let routing = route(backend, &logits, 1, true).unwrap();
    for outputs in [vec![], vec![matrix(vec![0.0; 6], 2)]] {
        assert!(matches!(weighted_sum(backend, &routing, &outputs, 4), Err(OpError::Shape { .. })));
    }
}

#[test]
fn logits_that_are_no_numbers_come_last() {
    let routing = route(&backends()[0], &matrix(vec![f32::NAN, 1.0, f32::NAN], 1), 2, true).unwrap();
    let chosen: Vec<usize> = routing.groups().iter().map(|group| group.expert).collect();
    assert_eq!(chosen, [0, 1]);
    assert_eq!(routing.weights, [1.0, 0.0]);
}

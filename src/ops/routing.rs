//! Choosing experts, and adding their outputs up.
use super::{Backend, OpError, cpu::threads::SharedOutput};
use crate::ops::tensors::{F32View, filled_by, from_elements, matrix_dims};
use candle_core::Tensor;
use std::ops::Range;

/// Elements a piece of work: waking another thread takes longer than fewer.
const GRAIN_ELEMENTS: usize = 1 << 15;

/// Which experts each row goes to, and with what weights.
pub struct Routing {
    per_row: usize,
    /// `[rows, per_row]`, the best first.
    weights: Vec<f32>,
    groups: Vec<ExpertGroup>,
    /// `[rows, per_row]`: where each choice stands among all groups' rows, group after group.
    places: Vec<usize>,
}

/// The rows that go to one expert.
pub struct ExpertGroup {
    /// The expert.
    pub expert: usize,
    /// Its rows, ascending.
    pub rows: Vec<u32>,
}

impl Routing {
    /// The chosen experts in ascending order, each with its rows. Experts that no row chose are left out.
    pub fn groups(&self) -> &[ExpertGroup] {
        &self.groups
    }
}

/// Chooses the `per_row` experts with the largest logits in each row; of equal ones the lower index.
///
/// Their weights are the softmax over all experts, or, with `normalises`, over the chosen ones: which is the same as dividing
/// by the sum of the chosen ones' probabilities.
///
/// # Shapes
/// `logits`: `[rows, experts]`
///
/// # Arithmetic
/// Exponentials and their sum (in order of rank, or of index where all experts take part) in f64, rounded once.
///
/// # Errors
/// [`OpError::Value`] when `per_row` is zero or more than there are experts; [`OpError::Shape`] unless `logits` is a matrix.
///
/// # Source
/// Shazeer et al. 2017, Outrageously Large Neural Networks.
pub fn route(
    backend: &Backend,
    logits: &Tensor,
    per_row: usize,
    normalises: bool,
) -> Result<Routing, OpError> {
    backend.only_cpu("routing to experts")?;
    let (rows, experts) = matrix_dims(logits, "logits")?;
    if per_row == 0 || per_row > experts {
        let expected = format!("from 1 to {experts} experts");
        return Err(OpError::Value { argument: "per_row", expected, found: per_row.to_string() });
    }
    let logits = F32View::of(logits, "logits")?;
    let mut weights = Vec::with_capacity(rows * per_row);
    let mut chosen = Vec::with_capacity(per_row + 1);
    let mut choices: Vec<(usize, usize)> = Vec::with_capacity(rows * per_row);
    let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); experts];
    for (row, logits) in logits.chunks_exact(experts).enumerate() {
        largest(logits, per_row, &mut chosen);
        weights.extend(softmax_of(&chosen, if normalises { None } else { Some(logits) }));
        for &(expert, _) in &chosen {
            choices.push((expert, rows_of[expert].len()));
            rows_of[expert].push(row as u32);
        }
    }
    let ends = rows_of.iter().scan(0, |end, rows| {
        *end += rows.len();
        Some(*end)
    });
    let starts: Vec<usize> = std::iter::once(0).chain(ends).collect();
    let places = choices.iter().map(|&(expert, place)| starts[expert] + place).collect();
    let groups = rows_of.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
    let groups = groups.map(|(expert, rows)| ExpertGroup { expert, rows }).collect();
    Ok(Routing { per_row, weights, groups, places })
}

/// The `count` largest logits with their experts, the best first. A logit that is not a number comes last.
fn largest(logits: &[f32], count: usize, chosen: &mut Vec<(usize, f32)>) {
    chosen.clear();
    for (expert, &logit) in logits.iter().enumerate() {
        let logit = if logit.is_nan() { f32::NEG_INFINITY } else { logit };
        let place = chosen.partition_point(|&(_, better)| better >= logit);
        if place < count {
            chosen.insert(place, (expert, logit));
            chosen.truncate(count);
        }
    }
}

/// Softmax values of the chosen experts, over all logits or the chosen ones alone.
fn softmax_of<'a>(chosen: &'a [(usize, f32)], all: Option<&[f32]>) -> impl Iterator<Item = f32> + use<'a> {
    let largest = chosen.first().map_or(0.0, |&(_, logit)| f64::from(logit));
    let exp = move |logit: f32| (f64::from(logit) - largest).exp();
    let sum: f64 = match all {
        Some(logits) => logits.iter().map(|&logit| exp(logit)).sum(),
        None => chosen.iter().map(|&(_, logit)| exp(logit)).sum(),
    };
    chosen.iter().map(move |&(_, logit)| (exp(logit) / sum) as f32)
}

/// Adds up each row's weighted outputs, in order of rank: the best expert's first.
///
/// # Shapes
/// * `outputs`: for each of the routing's groups, `[its rows, n]`
/// * returns `[rows, n]`
///
/// # Arithmetic
/// `w0 y0 + w1 y1 + ..`, each product and sum rounded: a row's bits do not depend on the other rows.
///
/// # Errors
/// [`OpError::Shape`] when an output has another shape.
pub fn weighted_sum(
    backend: &Backend,
    routing: &Routing,
    outputs: &[Tensor],
    n: usize,
) -> Result<Tensor, OpError> {
    let cpu = backend.only_cpu("adding up experts")?;
    let wrong = |expected: String, found: Vec<usize>| OpError::Shape { argument: "outputs", expected, found };
    if outputs.len() != routing.groups.len() {
        return Err(wrong(format!("{} groups", routing.groups.len()), vec![outputs.len()]));
    }
    let mut views = Vec::with_capacity(outputs.len());
    for (group, output) in routing.groups.iter().zip(outputs) {
        if output.dims() != [group.rows.len(), n] {
            return Err(wrong(format!("shape {:?}", [group.rows.len(), n]), output.dims().to_vec()));
        }
        views.push(F32View::of(output, "outputs")?);
    }
    let lines: Vec<&[f32]> = views.iter().flat_map(|view| view.chunks_exact(n.max(1))).collect();
    let rows = routing.weights.len() / routing.per_row;
    let add_up = |out: &mut [f32], range: Range<usize>| {
        for (row, out) in range.zip(out.chunks_exact_mut(n.max(1))) {
            let choices = row * routing.per_row..(row + 1) * routing.per_row;
            let weights = &routing.weights[choices.clone()];
            for (rank, (&weight, &place)) in weights.iter().zip(&routing.places[choices]).enumerate() {
                for (sum, &value) in out.iter_mut().zip(lines[place]) {
                    *sum = if rank == 0 { weight * value } else { *sum + weight * value };
                }
            }
        }
    };
    let write = |elements: &mut [f32]| {
        let shared = SharedOutput::new(elements);
        cpu.for_each(rows, GRAIN_ELEMENTS.div_ceil(n.max(1)), |range| {
            // SAFETY: each row is handed out once.
            let out = unsafe { shared.slice(range.start * n..range.end * n) };
            add_up(out, range);
        });
    };
    // SAFETY: every row has a best expert, whose product is stored before it is read.
    let elements = unsafe { filled_by(rows * n, write) };
    from_elements(elements, (rows, n))
}

#[cfg(test)]
mod tests;

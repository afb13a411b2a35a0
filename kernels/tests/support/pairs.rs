//! The values that kernels are tested with, and choices of them that hold each pair.
use super::Random;

/// Head sizes that kernels are built for.
pub const DIMS: [usize; 8] = [16, 32, 64, 80, 96, 128, 256, 512];
/// Tokens: on both sides of tiles, warps and blocks.
pub const LENGTHS: [usize; 11] = [1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000];
/// Tokens a block.
pub const BLOCKS: [usize; 2] = [16, 32];

/// Choices of one value a factor, as indices, such that each pair of values of two factors occurs at least once.
pub fn all_pairs(sizes: &[usize], seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random(seed);
    let mut missing = Vec::new();
    for a in 0..sizes.len() {
        for b in a + 1..sizes.len() {
            missing.extend((0..sizes[a]).flat_map(|x| (0..sizes[b]).map(move |y| (a, x, b, y))));
        }
    }
    let mut chosen = Vec::new();
    while let Some(&(a, x, b, y)) = missing.first() {
        let draws = (0..200).map(|_| {
            let mut row: Vec<usize> = sizes.iter().map(|&size| random.below(size)).collect();
            (row[a], row[b]) = (x, y);
            row
        });
        let covers =
            |row: &Vec<usize>| missing.iter().filter(|&&(a, x, b, y)| row[a] == x && row[b] == y).count();
        let best = draws.max_by_key(covers).expect("draws");
        missing.retain(|&(a, x, b, y)| best[a] != x || best[b] != y);
        chosen.push(best);
    }
    chosen
}

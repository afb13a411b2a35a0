//! [`PyRandom`]: the draws of Python's `random.Random`, value for value.
//!
//! # Source
//! The generator is MT19937 (crate `rand_mt`); how CPython seeds it and what it builds on top follows the
//! documented behaviour of `random.Random` and was checked against CPython 3.11.

use rand_mt::Mt;

/// A generator that draws what `random.Random(seed)` draws in CPython.
#[derive(Debug, Clone)]
pub struct PyRandom {
    generator: Mt,
}

impl PyRandom {
    /// Seeds as `random.Random(seed)` does for a non-negative integer: the seed's 32-bit words, lowest first, are the
    /// key of MT19937's array initialisation, and zero is one zero word.
    pub fn new(seed: u64) -> Self {
        let low = (seed & 0xffff_ffff) as u32;
        let high = (seed >> 32) as u32;
        let words = [low, high];
        let used = if high == 0 { 1 } else { 2 };
        let generator = Mt::new_with_key(words.into_iter().take(used));
        Self { generator }
    }

    /// `random()`: a double in [0, 1) with 53 random bits.
    pub fn random(&mut self) -> f64 {
        let high = f64::from(self.generator.next_u32() >> 5);
        let low = f64::from(self.generator.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// `getrandbits(bits)` for up to 64 bits; zero bits draw nothing and give 0. More than 64 are taken as 64.
    pub fn getrandbits(&mut self, bits: u32) -> u64 {
        let bits = bits.min(64);
        if bits == 0 {
            return 0;
        }
        if bits <= 32 {
            return u64::from(self.generator.next_u32() >> (32 - bits));
        }
        // CPython fills the lowest word first and shortens the last one drawn.
        let low = u64::from(self.generator.next_u32());
        let high = u64::from(self.generator.next_u32() >> (64 - bits));
        (high << 32) | low
    }

    /// `_randbelow(bound)`: an integer in [0, bound) by rejection; a bound of 0 draws nothing and gives 0.
    pub fn randbelow(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // CPython takes the bit length of the bound, not of bound - 1, so a power of two rejects half of its draws.
        let bits = 64 - bound.leading_zeros();
        loop {
            let draw = self.getrandbits(bits);
            if draw < bound {
                return draw;
            }
        }
    }

    /// `randint(low, high)`: an integer in [low, high]. A range of all 2^64 values is the 64 bits themselves.
    ///
    /// A range whose end is below its start gives `low`, without a draw.
    pub fn randint(&mut self, low: u64, high: u64) -> u64 {
        match high.checked_sub(low).map(|span| span.checked_add(1)) {
            None => low,
            Some(None) => self.getrandbits(64),
            Some(Some(count)) => low + self.randbelow(count),
        }
    }

    /// `sample(population, k)`: `k` distinct elements in the order drawn; `k` beyond the population is cut to it.
    ///
    /// CPython draws from a shrinking pool where the population is small beside a set of `k` entries, else by
    /// rejection, and the two consume different draws: both are needed to agree with it.
    pub fn sample<T: Clone>(&mut self, population: &[T], k: usize) -> Vec<T> {
        let n = population.len();
        let k = k.min(n);
        if n <= set_size(k) {
            self.sample_from_pool(population, k)
        } else {
            self.sample_by_rejection(population, k)
        }
    }

    fn sample_from_pool<T: Clone>(&mut self, population: &[T], k: usize) -> Vec<T> {
        let mut pool = population.to_vec();
        let mut chosen = Vec::with_capacity(k);
        for drawn in 0..k {
            let last = pool.len() - 1 - drawn;
            let index = self.randbelow(last as u64 + 1) as usize;
            chosen.push(pool[index].clone());
            pool[index] = pool[last].clone();
        }
        chosen
    }

    fn sample_by_rejection<T: Clone>(&mut self, population: &[T], k: usize) -> Vec<T> {
        let mut taken = std::collections::HashSet::with_capacity(k);
        let mut chosen = Vec::with_capacity(k);
        while chosen.len() < k {
            let index = self.randbelow(population.len() as u64) as usize;
            if taken.insert(index) {
                chosen.push(population[index].clone());
            }
        }
        chosen
    }
}

/// The population size up to which CPython's `sample` uses a pool: 21, plus for k > 5 the least power of 4 that is at
/// least 3k.
fn set_size(k: usize) -> usize {
    if k <= 5 {
        return 21;
    }
    let mut table: usize = 4;
    while table < k.saturating_mul(3) {
        table = table.saturating_mul(4);
    }
    table.saturating_add(21)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line of the script below: two `random()`, six `getrandbits`, five `_randbelow`, three `randint`.
    struct Expected {
        seed: u64,
        random: [f64; 2],
        bits: [u64; 6],
        below: [u64; 5],
        ints: [u64; 3],
    }

    // Written by python3.11:
    //   for s in (0, 1, 42, 7, 2**32+5, 2**64-1):
    //       r = random.Random(s)
    //       print(s, [r.random() for _ in range(2)], [r.getrandbits(k) for k in (1, 8, 31, 32, 33, 64)],
    //             [r._randbelow(n) for n in (1, 2, 3, 1000, 2**31)], [r.randint(0, 2**31-1) for _ in range(3)])
    #[rustfmt::skip]
    const EXPECTED: [Expected; 6] = [
        Expected { seed: 0, random: [0.8444218515250481, 0.7579544029403025], bits: [0, 10, 556019485, 4146640122, 2195908194, 16938433693753131896], below: [0, 1, 1, 597, 938204377], ints: [598176026, 1210484339, 600203567] },
        Expected { seed: 1, random: [0.13436424411240122, 0.8474337369372327], bits: [1, 16, 547756574, 506456969, 6422844795, 8711387064946514083], below: [0, 0, 0, 499, 121751464], ints: [1674216077, 1858720390, 9045414] },
        Expected { seed: 42, random: [0.6394267984578837, 0.025010755222666936], bits: [0, 62, 479341423, 599310825, 3163119785, 13662908291426823533], below: [0, 1, 0, 30, 402418010], ints: [939042955, 999270936, 113971123] },
        Expected { seed: 7, random: [0.32383276483316237, 0.15084917392450192], bits: [1, 12, 155555737, 3527346212, 2301595691, 10750541312280087032], below: [0, 0, 0, 88, 1862494042], ints: [1796035739, 300026767, 1033639716] },
        Expected { seed: 4294967301, random: [0.15727238718789782, 0.2824866316461999], bits: [1, 213, 31188864, 1524997693, 2696275445, 17571132581927258294], below: [0, 1, 0, 322, 846664313], ints: [685145293, 1730969195, 1956571982] },
        Expected { seed: 18446744073709551615, random: [0.021825695401270107, 0.3380953268613758], bits: [0, 116, 1320973025, 408097150, 8244494580, 14166965630497767659], below: [0, 0, 2, 545, 2017374292], ints: [336024585, 1416548123, 2076253967] },
    ];

    #[test]
    fn draws_equal_cpython() {
        for expected in EXPECTED {
            let mut random = PyRandom::new(expected.seed);
            assert_eq!(expected.random, [random.random(), random.random()], "random, seed {}", expected.seed);
            let bits = [1, 8, 31, 32, 33, 64].map(|bits| random.getrandbits(bits));
            assert_eq!(expected.bits, bits, "getrandbits, seed {}", expected.seed);
            let below = [1, 2, 3, 1000, 1 << 31].map(|bound| random.randbelow(bound));
            assert_eq!(expected.below, below, "randbelow, seed {}", expected.seed);
            let ints = [(); 3].map(|()| random.randint(0, (1 << 31) - 1));
            assert_eq!(expected.ints, ints, "randint, seed {}", expected.seed);
        }
    }

    // Written by python3.11: r = random.Random(42), then r.sample(range(n), k) in this order on one generator.
    // 277 = 21 + 256 is the last population that k = 30 draws from a pool.
    #[test]
    #[rustfmt::skip]
    fn sample_equals_cpython_in_both_branches() {
        let cases: [(usize, usize, &[usize]); 8] = [
            (10, 3, &[1, 0, 4]),
            (20, 10, &[7, 19, 4, 3, 2, 9, 6, 0, 12, 1]),
            (1000, 4, &[223, 238, 517, 616]),
            (5000, 30, &[217, 4597, 1628, 4464, 3436, 1805, 3679, 4827, 2278, 53, 1307, 3462, 2787, 2276, 1273, 1763, 2757, 837, 759, 3112, 792, 2940, 2817, 4945, 2166, 355, 3763, 4392, 1022, 3100]),
            (277, 30, &[40, 150, 185, 98, 35, 23, 116, 148, 276, 119, 51, 194, 142, 232, 186, 83, 189, 181, 107, 136, 36, 87, 257, 262, 62, 41, 118, 97, 69, 236]),
            (278, 30, &[112, 166, 28, 117, 16, 161, 205, 137, 33, 108, 255, 202, 234, 73, 135, 71, 126, 275, 134, 219, 204, 185, 70, 260, 252, 46, 24, 56, 78, 81]),
            (5, 5, &[3, 0, 1, 2, 4]),
            (3, 0, &[]),
        ];
        let mut random = PyRandom::new(42);
        for (n, k, expected) in cases {
            let population: Vec<usize> = (0..n).collect();
            assert_eq!(expected, random.sample(&population, k), "sample of {k} from {n}");
        }
        assert_eq!(0.529114345099137, random.random());
    }

    #[test]
    fn bounds_without_values_draw_nothing() {
        let mut random = PyRandom::new(3);
        let mut untouched = random.clone();
        assert_eq!(0, random.randbelow(0));
        assert_eq!(9, random.randint(9, 2));
        assert_eq!(0, random.getrandbits(0));
        assert_eq!(Vec::<u8>::new(), random.sample::<u8>(&[], 4));
        assert_eq!(untouched.random(), random.random());
    }
}

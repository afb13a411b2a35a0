//! Seeded damage, and the loop that feeds it to a reader.

use std::path::Path;

/// Peak resident memory of the whole test process, in bytes; nothing here needs more than a few hundred MiB.
const MOST_MEMORY: u64 = 2 << 30;

/// A xorshift generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit.max(1)
    }
}

/// Counts and lengths that overflow, or that nothing can hold.
const HOSTILE: [u64; 8] =
    [0, 1 << 31, (1 << 32) - 1, 1 << 40, i64::MAX as u64, 1 << 63, u64::MAX - 7, u64::MAX];

/// One kind of damage at a random place; half of the places lie in the first KiB, where headers are.
pub fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let reach = if random.below(2) == 0 { bytes.len().min(1_024) } else { bytes.len() };
    let place = random.below(reach);
    match random.below(5) {
        0 => bytes.truncate(place),
        1 => {
            for _ in 0..1 + random.below(8) {
                let place = random.below(reach);
                bytes[place] ^= 1 << random.below(8);
            }
        }
        2 => {
            let width = [1, 4, 8][random.below(3)].min(bytes.len() - place);
            let value = HOSTILE[random.below(HOSTILE.len())].to_le_bytes();
            bytes[place..place + width].copy_from_slice(&value[..width]);
        }
        3 => {
            let end = (place + 1 + random.below(64)).min(bytes.len());
            bytes.drain(place..end);
        }
        _ => {
            let end = (place + 1 + random.below(32)).min(bytes.len());
            let piece = bytes[place..end].repeat(1 + random.below(200));
            bytes.splice(place..place, piece);
        }
    }
    bytes
}

/// How a reader is attacked.
pub struct Attack<'a> {
    /// The file's name inside the folder that the reader gets.
    pub file: &'a str,
    /// Undamaged content.
    pub valid: &'a [u8],
    /// Damaged versions to try.
    pub rounds: usize,
    /// Of the damage.
    pub seed: u64,
}

impl Attack<'_> {
    /// Reads the valid file, which must succeed, and then damaged ones from `folder`, of which some must fail.
    pub fn run<T, E: std::error::Error>(&self, folder: &Path, read: impl Fn(&Path) -> Result<T, E>) {
        let path = folder.join(self.file);
        std::fs::write(&path, self.valid).unwrap();
        if let Err(error) = read(&path) {
            panic!("{} undamaged: {error}", self.file);
        }
        let mut random = Random::new(self.seed);
        let mut refused = 0;
        for round in 0..self.rounds {
            let damaged = damage(self.valid, &mut random);
            std::fs::write(&path, &damaged).unwrap();
            if let Err(error) = read(&path) {
                assert!(!error.to_string().is_empty(), "{} round {round}: {error:?}", self.file);
                refused += 1;
            }
        }
        println!("{}: {refused} of {} damaged files refused", self.file, self.rounds);
        assert!(refused > 0, "{}: no damage was noticed in {} rounds", self.file, self.rounds);
        std::fs::write(&path, self.valid).unwrap();
        check_memory();
    }
}

/// Fails where the process ever held more than [`MOST_MEMORY`]; does nothing where the system does not say.
pub fn check_memory() {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
    assert!(kib << 10 < MOST_MEMORY, "peak memory is {kib} KiB");
}

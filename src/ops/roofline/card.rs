//! [`Card`]: what a GPU can do at best.

/// Peak rates of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Card {
    /// The name that `--card` takes.
    pub name: &'static str,
    /// Compute capability times ten, as in `sm_89`.
    pub sm: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Boost clock in MHz.
    pub boost_mhz: u32,
    /// Dense bf16 operations with f32 sums a clock and multiprocessor; a multiply-add is two.
    pub tensor_flops_a_clock: u32,
    /// f32 operations a clock and multiprocessor.
    pub vector_flops_a_clock: u32,
    /// Memory bandwidth in GB/s.
    pub gigabytes_per_second: u32,
    /// Memory in GiB.
    pub memory_gib: u32,
}

impl Card {
    /// Cards that longwick's kernels are built for.
    ///
    /// # Source
    /// Multiprocessors, boost clocks, rates and bandwidths of NVIDIA's architecture papers: GA102 (RTX 3090), Ada (RTX 4090,
    /// RTX 6000 Ada), RTX Blackwell (RTX 5090, RTX PRO 6000), A100 and H100; the H200's memory of its data sheet. GeForce cards sum
    /// in f32 at half the rate of the professional ones.
    pub const ALL: [Self; 7] = [
        Self::new("rtx-3090", 86, 82, 1695, 512, 256, 936, 24),
        Self::new("rtx-4090", 89, 128, 2520, 512, 256, 1008, 24),
        Self::new("rtx-5090", 120, 170, 2407, 512, 256, 1792, 32),
        Self::new("rtx-6000-ada", 89, 142, 2505, 1024, 256, 960, 48),
        Self::new("rtx-pro-6000", 120, 188, 2617, 1024, 256, 1792, 96),
        Self::new("a100-80gb", 80, 108, 1410, 2048, 128, 2039, 80),
        Self::new("h200", 90, 132, 1830, 4096, 256, 4800, 141),
    ];

    #[allow(clippy::too_many_arguments)]
    const fn new(
        name: &'static str,
        sm: u32,
        multiprocessors: u32,
        boost_mhz: u32,
        tensor_flops_a_clock: u32,
        vector_flops_a_clock: u32,
        gigabytes_per_second: u32,
        memory_gib: u32,
    ) -> Self {
        Self {
            name,
            sm,
            multiprocessors,
            boost_mhz,
            tensor_flops_a_clock,
            vector_flops_a_clock,
            gigabytes_per_second,
            memory_gib,
        }
    }

    /// The card of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|card| card.name == name)
    }

    /// Bytes a second between memory and cores.
    pub fn bytes_per_second(&self) -> f64 {
        f64::from(self.gigabytes_per_second) * 1e9
    }

    /// Operations a second of the tensor cores, bf16 with f32 sums.
    pub fn tensor_flops_per_second(&self) -> f64 {
        self.clocks_per_second() * f64::from(self.tensor_flops_a_clock)
    }

    /// f32 operations a second of the f32 units.
    pub fn vector_flops_per_second(&self) -> f64 {
        self.clocks_per_second() * f64::from(self.vector_flops_a_clock)
    }

    /// Exponentials a second: 16 a clock and multiprocessor on all these architectures.
    ///
    /// # Source
    /// CUDA C++ programming guide, table of arithmetic throughput.
    pub fn exponentials_per_second(&self) -> f64 {
        self.clocks_per_second() * 16.0
    }

    /// Clocks a second, over all multiprocessors.
    fn clocks_per_second(&self) -> f64 {
        f64::from(self.multiprocessors) * f64::from(self.boost_mhz) * 1e6
    }
}

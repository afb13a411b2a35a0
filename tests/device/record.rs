//! What a run on the emulator records of its models.

use longwick::compint::config::RunConfig;
use longwick::compint::runner::Experiment;

use crate::bench::{Bench, CONFIG};

#[test]
fn results_are_batch_invariant() {
    let bench = Bench::new(8192, 1);
    let text = CONFIG.replace("[engine]", "[engine]\ndevice = \"emu\"\nkv_dtype = \"fp8\"");
    let config = RunConfig::load(&bench.config("c.toml", "out", &text)).unwrap();
    let models = Experiment::prepare(config).unwrap().plan().models;
    let [model] = models.as_slice() else { panic!("{models:?}") };
    assert!(model.batch_invariant && model.arithmetic.starts_with("emu kv=fp8 "), "{model:?}");
}

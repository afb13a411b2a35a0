//! The estimate of a step's scratch is one from above, and not by much.

use std::path::Path;

use longwick::engine::{Request, RequestKind};
use longwick::ops::KvDtype;

use crate::{OWN, REAL, allocations, alone, assets, options, plan_of};

/// Prefills in whole steps and asks for the logits of many places, some at the end of a step.
fn is_close(path: &Path, chunk: usize) -> bool {
    let options = options(KvDtype::F32, chunk);
    let length = 2 * chunk + 70;
    let plan = plan_of(path, &options, length);
    let mut engine = assets::load(path, options);
    let prompt: Vec<u32> = (0..length as u32).map(|place| 3 + place * 7 % 200).collect();
    let positions = (length - 64..length).collect();
    let most = allocations::most_during(|| {
        engine.run(Request::new(prompt, RequestKind::Logits { positions, top: 1 })).unwrap();
    });
    let ratio = plan.scratch as f64 / most as f64;
    println!("{}: planned {}, {most} in a step: {ratio:.2}", path.display(), plan.scratch);
    (1.0..6.0).contains(&ratio)
}

#[test]
fn a_step_stays_below_its_plan() {
    let _alone = alone();
    let own = OWN.into_iter().filter(|name| !name.ends_with("gguf"));
    let mut all_close = true;
    for (path, chunk) in own.map(|name| (assets::own_fixture(name), 512)) {
        all_close &= is_close(&path, chunk);
    }
    for path in REAL.iter().filter_map(|(_, file)| assets::real_model(file)) {
        all_close &= is_close(&path, 256);
    }
    assert!(all_close, "see above");
}

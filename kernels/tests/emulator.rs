//! The emulator catches the faults that kernels must not have.
#![cfg(feature = "emu")]
use half::{bf16, f16};
use longwick_kernels::{
    Element, KernelError, Stream,
    emu::{GuardedMemory, Order, blocks_run, run_planted},
};
use std::process::Command;

const THREADS: usize = 64;
const ROTATED: fn(usize) -> f32 = |i| ((i + 1) % THREADS) as f32;

fn run(name: &str, order: Order) -> Result<Vec<f32>, KernelError> {
    let input: Vec<f32> = (0..THREADS).map(|i| i as f32).collect();
    let input = GuardedMemory::copy_of(&input)?;
    let mut output = GuardedMemory::new(4 * THREADS)?;
    // SAFETY: 64 floats each, as these kernels take.
    unsafe {
        run_planted(
            &mut Stream::emu(order),
            name,
            input.elements().as_ptr(),
            output.elements_mut().as_mut_ptr(),
        )?;
    }
    Ok(output.elements().to_vec())
}

fn check_sound(name: &str, expected: fn(usize) -> f32) {
    let expected: Vec<f32> = (0..THREADS).map(expected).collect();
    for order in Order::ALL {
        assert_eq!(run(name, order).expect(name), expected, "{name} {order:?}");
    }
}

/// The kernel runs to its end, but never to the right result.
fn check_wrong_result(name: &str, expected: fn(usize) -> f32) {
    let expected: Vec<f32> = (0..THREADS).map(expected).collect();
    for order in Order::ALL {
        assert_ne!(run(name, order).expect(name), expected, "{name} {order:?}");
    }
}

fn check_fault(name: &str, part: &str) {
    for order in Order::ALL {
        match run(name, order) {
            Err(KernelError::Launch { message, .. }) => {
                assert!(message.contains(part), "{name} {order:?}: {message}");
            }
            other => panic!("{name} {order:?}: {other:?}"),
        }
    }
}

#[test]
fn sound_kernels_give_the_same_in_every_order() {
    check_sound("barrier", ROTATED);
    check_sound("reuse", |i| ((i + 3) % THREADS) as f32);
    check_sound("async_copied", |i| i as f32);
    check_sound("masked_shuffle", |i| (i ^ 3) as f32 + if i < 32 { 0.0 } else { 0.5 });
}

#[test]
fn a_missing_barrier_shows() {
    check_wrong_result("missing_barrier", ROTATED);
    check_wrong_result("early_reuse", |i| ((i + 3) % THREADS) as f32);
}

#[test]
fn a_missing_wait_shows() {
    check_wrong_result("missing_wait", |i| i as f32);
    for order in Order::ALL {
        let output = run("wait_for_too_few", order).expect("runs");
        assert!(output[..THREADS / 2].iter().enumerate().all(|(i, &x)| x == i as f32), "{output:?}");
        assert!(output[THREADS / 2..].iter().all(|x| x.is_nan()), "{output:?}");
    }
    check_fault("never_waits", "ended with asynchronous copies under way");
}

#[test]
fn divergence_is_a_fault() {
    check_fault("divergent_barrier", "divergent barrier");
    check_fault("exited_thread", "thread 5 has ended");
    check_fault("barrier_against_shuffle", "wait");
    check_fault("divergent_shuffle", "divergent warp collective");
    check_fault("foreign_lane", "not in its mask");
    check_fault("unaligned_copy", "not on 16 bytes");
}

#[test]
fn a_stream_works_after_a_fault() {
    check_fault("divergent_barrier", "divergent barrier");
    check_sound("barrier", ROTATED);
}

/// Runs a kernel that must kill its process, in a child that runs this same test.
fn check_abort(test: &str, kernel: &str) {
    if std::env::var_os("LONGWICK_PLANTED_CHILD").is_some() {
        let _ = run(kernel, Order::Forward);
        return;
    }
    let child = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", test, "--nocapture"])
        .env("LONGWICK_PLANTED_CHILD", "1")
        .output()
        .expect("the child starts");
    assert!(!child.status.success(), "{kernel} ran to its end");
    let said = String::from_utf8_lossy(&child.stderr);
    let caught = std::os::unix::process::ExitStatusExt::signal(&child.status) == Some(11)
        || said.contains("AddressSanitizer");
    assert!(caught, "{kernel} ended otherwise: {:?} {said}", child.status);
}

#[test]
fn an_overrun_of_shared_memory_aborts() {
    check_abort("an_overrun_of_shared_memory_aborts", "shared_overrun");
}

#[test]
fn an_overrun_of_global_memory_aborts() {
    check_abort("an_overrun_of_global_memory_aborts", "global_overrun");
}

#[test]
fn blocks_are_counted_by_kernel_and_thread() {
    let counts = || [c"planted_reuse", c"planted_early", c"planted_"].map(blocks_run);
    let before = counts();
    run("reuse", Order::Forward).expect("a sound kernel");
    std::thread::spawn(|| run("reuse", Order::Forward).expect("a sound kernel")).join().expect("a thread");
    let after = counts();
    assert_eq!([0, 1, 2].map(|i| after[i] - before[i]), [1, 0, 1]);
}

fn check_product<T: Element>(name: &str, to: fn(f32) -> T) {
    // Small integers, so that every sum is exact: a wrong fragment cannot hide in rounding.
    let a = |row: usize, k: usize| ((row * 5 + k * 3) % 17) as f32 - 8.0;
    let b = |k: usize, column: usize| ((column * 7 + k * 2) % 13) as f32 - 6.0;
    let mut input: Vec<T> = Vec::new();
    input.extend((0..16 * 16).map(|i| to(a(i / 16, i % 16))));
    input.extend((0..8 * 16).map(|i| to(b(i % 16, i / 16))));
    let input = GuardedMemory::copy_of(&input).expect("memory");
    let mut output = GuardedMemory::new(4 * 16 * 8).expect("memory");
    // SAFETY: the operands and room for the product, as these kernels take.
    unsafe {
        let out = output.elements_mut().as_mut_ptr();
        run_planted(&mut Stream::emu(Order::Forward), name, input.elements().as_ptr(), out).expect(name);
    }
    for (i, &found) in output.elements::<f32>().iter().enumerate() {
        let expected: f32 = (0..16).map(|k| a(i / 8, k) * b(k, i % 8)).sum();
        assert_eq!(found, expected, "{name} row {} column {}", i / 8, i % 8);
    }
}

#[test]
fn matrix_tiles_multiply() {
    check_product("product_bf16", bf16::from_f32);
    check_product("product_f16", f16::from_f32);
    check_product("product_transposed", f16::from_f32);
}

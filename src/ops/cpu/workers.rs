//! Worker threads for pieces of work of some microseconds.
//!
//! Decoding one token starts hundreds of parallel sections, each shorter than it takes to put a thread to sleep and to wake it
//! again. So workers spin for a moment before they sleep, the caller spins for the last of them, and it waits only for those
//! that have begun: a worker that the system does not run just then holds up nobody.
use std::{
    any::Any,
    cell::UnsafeCell,
    hint::spin_loop,
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Release, SeqCst},
        },
    },
    thread::{self, JoinHandle},
};

/// Spins of an idle worker before it sleeps: some tens of microseconds.
const IDLE_SPINS: u32 = 2_000;
/// Spins of the caller before it lets other threads run.
const WAIT_SPINS: u32 = 10_000;

/// The lowest bits of the gate count the workers inside of the section.
const INSIDE: u64 = (1 << 16) - 1;
/// Set while workers may enter.
const OPEN: u64 = 1 << 16;
/// Each section has a number of its own, from this bit on.
const SECTION: u64 = 1 << 17;

type Job<'a> = dyn Fn() + Sync + 'a;

/// Threads that run the same closure as the caller.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

struct Shared {
    gate: AtomicU64,
    /// Written while the gate is closed and nobody is inside; read by those inside.
    job: UnsafeCell<Option<*const Job<'static>>>,
    /// One section at a time.
    section: Mutex<()>,
    asleep: Vec<AtomicBool>,
    stopping: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is the only field that is not Sync by itself, and the gate orders its writes and reads.
unsafe impl Sync for Shared {}
// SAFETY: the job behind the pointer is Sync, and `Workers::run` outlives every use of it.
unsafe impl Send for Shared {}

impl Workers {
    /// Starts `count` threads.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        if count as u64 >= INSIDE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("at most {} threads", INSIDE)));
        }
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            section: Mutex::new(()),
            asleep: (0..count).map(|_| AtomicBool::new(false)).collect(),
            stopping: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        // Dropping the value stops those that did start, should the system refuse one.
        let mut workers = Self { shared, handles: Vec::with_capacity(count) };
        for index in 0..count {
            let shared = Arc::clone(&workers.shared);
            let thread = thread::Builder::new().name(format!("longwick-{index}"));
            workers.handles.push(thread.spawn(move || shared.work(index))?);
        }
        Ok(workers)
    }

    /// Calls `job` on the calling thread and on every worker that is free, and returns when all calls have.
    ///
    /// A worker may come too late to be called, so the caller's own call must be enough to do the work. Calls from inside of
    /// a job, or while another thread's job runs, are run by the caller alone.
    ///
    /// # Panics
    /// With the job's panic.
    pub(crate) fn run(&self, job: &Job<'_>) {
        let _section = match self.shared.section.try_lock() {
            Ok(section) => section,
            // Nothing is guarded but the order of sections, so a panic of an earlier job has left nothing half done.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return job(),
        };
        // One left over is that of a section whose caller panicked too.
        self.take_panic();
        let closing = self.open(job);
        job();
        drop(closing);
        if let Some(panic) = self.take_panic() {
            resume_unwind(panic);
        }
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Lets workers into `job` until the returned value is dropped.
    fn open(&self, job: &Job<'_>) -> Closing<'_> {
        // SAFETY: only the lifetime changes. `Closing` waits until nobody is inside, and `run` drops it before `job`'s borrow ends.
        let job: *const Job<'static> = unsafe { std::mem::transmute::<&Job<'_>, &'static Job<'static>>(job) };
        // SAFETY: the gate is closed and nobody is inside, and `section` is held: nobody else reads or writes.
        unsafe { *self.shared.job.get() = Some(job) };
        let closed = self.shared.gate.load(Acquire);
        self.shared.gate.store((closed & !(INSIDE | OPEN)).wrapping_add(SECTION) | OPEN, SeqCst);
        for (asleep, handle) in self.shared.asleep.iter().zip(&self.handles) {
            if asleep.load(SeqCst) && asleep.swap(false, SeqCst) {
                handle.thread().unpark();
            }
        }
        Closing(&self.shared)
    }
}

/// Closes the gate and waits for those inside, on unwinding too.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.gate.fetch_and(!OPEN, SeqCst);
        let mut spins = 0;
        while self.0.gate.load(Acquire) & INSIDE != 0 {
            spins += 1;
            if spins < WAIT_SPINS { spin_loop() } else { thread::yield_now() }
        }
    }
}

impl Shared {
    fn work(&self, index: usize) {
        let mut last = 0;
        while let Some(section) = self.wait_for_section(index, last) {
            last = section;
            // SAFETY: this thread is inside, so the job was written before and lives until it leaves.
            let job = unsafe { (*self.job.get()).map(|job| &*job) };
            if let Some(Err(panic)) = job.map(|job| catch_unwind(AssertUnwindSafe(job))) {
                let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(panic);
            }
            self.gate.fetch_sub(1, Release);
        }
    }

    /// Enters the next section that is not `last`, and returns its number; `None` when the threads are to stop.
    fn wait_for_section(&self, index: usize, last: u64) -> Option<u64> {
        let mut spins = 0;
        loop {
            if self.stopping.load(Acquire) {
                return None;
            }
            let gate = self.gate.load(SeqCst);
            let section = gate / SECTION;
            if gate & OPEN != 0 && section != last {
                if self.gate.compare_exchange_weak(gate, gate + 1, SeqCst, Acquire).is_ok() {
                    return Some(section);
                }
                continue;
            }
            spins += 1;
            if spins < IDLE_SPINS {
                spin_loop();
                continue;
            }
            // Whoever opens the gate after this store sees it, and one opened before is seen by the check that follows.
            self.asleep[index].store(true, SeqCst);
            let gate = self.gate.load(SeqCst);
            let is_open = gate & OPEN != 0 && gate / SECTION != last;
            if !is_open && !self.stopping.load(SeqCst) {
                thread::park();
            }
            self.asleep[index].store(false, SeqCst);
            spins = 0;
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stopping.store(true, SeqCst);
        for handle in &self.handles {
            handle.thread().unpark();
        }
        for handle in self.handles.drain(..) {
            // A worker catches its jobs' panics, so there is none to report here.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_item_is_done_once_in_many_short_sections() {
        for count in [1, 3] {
            let workers = Workers::start(count).unwrap();
            for round in 0..20_000 {
                let items = round % 7;
                let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
                workers.run(&|| {
                    while next.fetch_add(1, SeqCst) < items {
                        done.fetch_add(1, SeqCst);
                    }
                });
                assert_eq!(done.load(SeqCst), items);
                if round % 5_000 == 0 {
                    // Long enough for the workers to fall asleep.
                    thread::park_timeout(std::time::Duration::from_millis(5));
                }
            }
        }
    }

    #[test]
    fn jobs_inside_of_jobs_and_from_other_threads_are_done() {
        let workers = Workers::start(2).unwrap();
        let calls = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        workers.run(&|| {
                            workers.run(&|| {
                                calls.fetch_add(1, SeqCst);
                            })
                        });
                    }
                });
            }
        });
        assert!(calls.load(SeqCst) >= 600);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_leaves_the_threads_usable() {
        let workers = Workers::start(2).unwrap();
        for _ in 0..50 {
            let caught = catch_unwind(AssertUnwindSafe(|| workers.run(&|| panic!("a piece failed"))));
            assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"a piece failed"));
            let calls = AtomicUsize::new(0);
            workers.run(&|| {
                calls.fetch_add(1, SeqCst);
            });
            assert!(calls.load(SeqCst) >= 1);
        }
    }
}

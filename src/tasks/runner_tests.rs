use super::*;
use crate::engine::{GenerateParams, RequestKind, RequestOutput};
use crate::tasks::mock::{Reply, ScriptedEngine, options};
use crate::tasks::{RequestRefusal, RequestResult};

/// Asks for `rounds` answers, then yields what it saw.
struct Counting {
    name: u32,
    rounds: usize,
    seen: Vec<String>,
}

fn counting(name: u32, rounds: usize) -> (u32, Counting) {
    (name, Counting { name, rounds, seen: Vec::new() })
}

impl Job for Counting {
    type Output = Vec<String>;

    fn advance(
        &mut self,
        context: &TaskContext<'_>,
        previous: Option<RequestResult>,
    ) -> JobStep<Vec<String>> {
        assert_eq!((context.date, context.context_length), ("2026-01-01", 10_000));
        match previous {
            None => {}
            Some(Ok(completion)) => match completion.output {
                RequestOutput::Generated { text, .. } => self.seen.push(text),
                RequestOutput::Failed(message) => self.seen.push(message),
                other => panic!("{other:?}"),
            },
            Some(Err(RequestRefusal::ContextExceeded { needed, limit })) => {
                self.seen.push(format!("{needed}>{limit}"));
            }
            Some(Err(other)) => panic!("{other}"),
        }
        if self.seen.len() == self.rounds {
            return JobStep::Done(std::mem::take(&mut self.seen));
        }
        let params = GenerateParams::default();
        JobStep::Submit(Request::new(vec![self.name, 1], RequestKind::Generate(params)))
    }
}

/// Keys and outputs, in the order of delivery.
type Delivered = Vec<(u32, Vec<String>)>;

fn collect(
    engine: &mut ScriptedEngine,
    jobs: Vec<(u32, Counting)>,
    in_flight: usize,
) -> (Result<RunEnd, RunError>, Delivered) {
    let mut outputs = Vec::new();
    let end = run_jobs(
        engine,
        jobs.into_iter(),
        &options(in_flight),
        &mut |key, output| {
            outputs.push((key, output));
            ControlFlow::Continue(())
        },
        &AtomicBool::new(false),
    );
    (end, outputs)
}

#[test]
fn jobs_begin_in_order_and_never_more_than_allowed_at_once() {
    let mut engine = ScriptedEngine::new(|_, _| Reply::Text("x"));
    let jobs = (0..7).map(|name| counting(name, 2)).collect();
    let (end, outputs) = collect(&mut engine, jobs, 3);
    assert_eq!(end.unwrap(), RunEnd::Finished);
    assert_eq!(engine.most_pending, 3);
    assert_eq!(outputs.len(), 7);
    assert!(outputs.iter().all(|(_, seen)| seen == &["x", "x"]));
    let mut first_seen: Vec<u32> = Vec::new();
    for request in &engine.requests {
        if !first_seen.contains(&request.prompt[0]) {
            first_seen.push(request.prompt[0]);
        }
    }
    assert_eq!(first_seen, vec![0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(engine.requests.len(), 14);
}

#[test]
fn results_are_delivered_as_they_end() {
    let mut engine = ScriptedEngine::new(|_, request| match request.prompt[0] {
        0 => Reply::Text("zero"),
        _ => Reply::Text("other"),
    });
    engine.newest_first = true;
    let (_, outputs) = collect(&mut engine, vec![counting(0, 1), counting(1, 1), counting(2, 1)], 3);
    let order: Vec<u32> = outputs.iter().map(|(key, _)| *key).collect();
    assert_eq!(order, vec![2, 1, 0]);
    assert_eq!(outputs[2].1, vec!["zero"]);
}

#[test]
fn refusals_and_failures_go_to_their_job_and_the_run_goes_on() {
    let mut engine = ScriptedEngine::new(|_, request| match request.prompt[0] {
        0 => Reply::TooLong,
        1 => Reply::Fails("grammar"),
        _ => Reply::Text("fine"),
    });
    let (end, outputs) = collect(&mut engine, vec![counting(0, 2), counting(1, 1), counting(2, 1)], 1);
    assert_eq!(end.unwrap(), RunEnd::Finished);
    let expected = [vec!["20000>10000", "20000>10000"], vec!["grammar"], vec!["fine"]];
    for ((_, seen), expected) in outputs.iter().zip(expected) {
        assert_eq!(seen, &expected);
    }
}

#[test]
fn a_job_without_requests_needs_no_engine() {
    let mut engine = ScriptedEngine::new(|_, _| Reply::Breaks);
    let (end, outputs) = collect(&mut engine, vec![counting(0, 0)], 1);
    assert_eq!(end.unwrap(), RunEnd::Finished);
    assert_eq!(outputs, vec![(0, vec![])]);
}

#[test]
fn an_engine_that_breaks_ends_the_run_and_keeps_what_was_delivered() {
    let mut engine = ScriptedEngine::new(|_, request| match request.prompt[0] {
        2 => Reply::Breaks,
        _ => Reply::Text("x"),
    });
    let (end, outputs) = collect(&mut engine, (0..4).map(|name| counting(name, 1)).collect(), 2);
    assert!(matches!(end, Err(RunError::Engine(_))));
    assert_eq!(outputs.len(), 1);
    // What was under way is taken back from the engine.
    assert_eq!(engine.cancelled, vec![SequenceId(1), SequenceId(2)]);
}

#[test]
fn a_lost_request_is_an_error_not_a_hang() {
    let mut engine = ScriptedEngine::new(|_, _| Reply::Loses);
    let (end, _) = collect(&mut engine, vec![counting(0, 1)], 1);
    assert!(matches!(end, Err(RunError::Lost { waiting: 1 })));
}

#[test]
fn a_consumer_can_stop_the_run() {
    let mut engine = ScriptedEngine::new(|_, _| Reply::Text("x"));
    let mut delivered = 0;
    let end = run_jobs(
        &mut engine,
        (0..9).map(|name| counting(name, 1)),
        &options(3),
        &mut |_, _| {
            delivered += 1;
            if delivered == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
        &AtomicBool::new(false),
    );
    assert_eq!((end.unwrap(), delivered), (RunEnd::Stopped, 2));
    assert!(!engine.has_work());
    // Three began, the first made room for a fourth, the second stopped the run.
    assert_eq!((engine.requests.len(), engine.cancelled.len()), (4, 2));
}

#[test]
fn an_interrupt_delivers_the_step_under_way_and_drops_the_rest() {
    let mut engine = ScriptedEngine::new(|_, _| Reply::Text("x"));
    let interrupted = AtomicBool::new(false);
    let mut delivered = 0;
    let end = run_jobs(
        &mut engine,
        (0..9).map(|name| counting(name, 1)),
        &options(3),
        &mut |_, _| {
            delivered += 1;
            interrupted.store(true, Ordering::Relaxed);
            ControlFlow::Continue(())
        },
        &interrupted,
    );
    assert_eq!((end.unwrap(), delivered), (RunEnd::Interrupted, 1));
    assert!(!engine.has_work());
    assert_eq!((engine.requests.len(), engine.cancelled.len()), (3, 2));
}

#[test]
fn an_interrupt_before_the_start_begins_nothing() {
    let mut engine = ScriptedEngine::new(|_, _| Reply::Breaks);
    let end = run_jobs(
        &mut engine,
        (0..3).map(|name| counting(name, 1)),
        &options(3),
        &mut |_, _| panic!("nothing ran"),
        &AtomicBool::new(true),
    );
    assert_eq!(end.unwrap(), RunEnd::Interrupted);
    assert!(engine.requests.is_empty());
}

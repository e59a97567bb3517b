//! Best times of many short runs that take turns, so that what disturbs one disturbs all.

use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

/// What goes along a path once, each time that it is called.
pub type Worker = Box<dyn FnMut() + Send>;

/// Something to be measured.
pub struct Subject {
    /// What it is called in a table.
    pub name: String,
    make: Box<dyn Fn() -> Worker>,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Subject {
    /// One that each thread has a worker of, all of which share what is shared in it.
    pub fn new(name: impl Into<String>, make: impl Fn() -> Worker + 'static) -> Self {
        Self { name: name.into(), make: Box::new(make) }
    }

    /// One who goes along it.
    pub fn worker(&self) -> Worker {
        (self.make)()
    }
}

/// Nanoseconds of a round of each subject, in their order, each by itself on this thread.
pub fn alone(subjects: &[Subject], runs: usize, rounds: usize) -> Vec<f64> {
    let mut times = vec![f64::INFINITY; subjects.len()];
    let mut workers: Vec<_> = subjects.iter().map(Subject::worker).collect();
    for _ in 0..runs {
        for (worker, time) in workers.iter_mut().zip(&mut times) {
            (0..rounds / 10).for_each(|_| worker());
            let (began, ended) = timed(worker, rounds);
            *time = time.min(nanoseconds(began, ended) / rounds as f64);
        }
    }
    times
}

/// Nanoseconds of a round in each of two threads that do the same, for all subjects in their order; infinite where the
/// machine never let both run at once. Wants to be called within a runtime.
pub fn by_two(subjects: &[Subject], runs: usize, rounds: usize) -> Vec<f64> {
    const IN_ONE_GO: usize = 10;
    let mut times = vec![f64::INFINITY; subjects.len()];
    for _ in 0..runs.div_ceil(IN_ONE_GO) {
        for (subject, time) in subjects.iter().zip(&mut times) {
            let [one, other] = together([subject.worker(), subject.worker()], IN_ONE_GO, rounds);
            let of_both = one.into_iter().zip(other).filter_map(|(one, other)| of_both(one, other));
            *time = of_both.map(|time| time / rounds as f64).fold(*time, f64::min);
        }
    }
    times
}

/// When a run began, and when it was over.
type Span = (Instant, Instant);

/// The longer of two times, if they were mostly the same time: otherwise one of the threads was kept from running, and
/// the other had it easy.
fn of_both(one: Span, other: Span) -> Option<f64> {
    let longer = nanoseconds(one.0, one.1).max(nanoseconds(other.0, other.1));
    let shared = nanoseconds(one.0.max(other.0), one.1.min(other.1));
    (shared >= 0.8 * longer).then_some(longer)
}

/// All runs of either worker.
fn together(workers: [Worker; 2], runs: usize, rounds: usize) -> [Vec<Span>; 2] {
    let handle = tokio::runtime::Handle::current();
    let arrived = AtomicUsize::new(0);
    let spans = |mut worker: Worker| {
        let _entered = handle.enter();
        let run = |run| {
            (0..rounds / 10).for_each(|_| worker());
            // Who is woken comes late: so both look, until both are there.
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 2 * (run + 1) {
                std::hint::spin_loop();
            }
            timed(&mut worker, rounds)
        };
        (0..runs).map(run).collect()
    };
    std::thread::scope(|scope| {
        workers.map(|worker| scope.spawn(|| spans(worker))).map(|thread| thread.join().expect("no panic"))
    })
}

fn timed(worker: &mut Worker, rounds: usize) -> Span {
    let began = Instant::now();
    (0..rounds).for_each(|_| worker());
    (began, Instant::now())
}

fn nanoseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_what_goes_on_at_the_same_time_counts() {
        let start = Instant::now();
        let span = |from, to| (start + Duration::from_nanos(from), start + Duration::from_nanos(to));
        assert_eq!(of_both(span(0, 100), span(10, 110)), Some(100.0));
        assert_eq!(of_both(span(0, 100), span(30, 130)), None);
        assert_eq!(of_both(span(0, 100), span(0, 200)), None);
        assert_eq!(of_both(span(0, 100), span(100, 200)), None);
    }
}

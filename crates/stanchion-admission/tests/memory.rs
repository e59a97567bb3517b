//! What a request that waits costs in memory, counted by the allocator. One test, so that nobody else allocates.

use std::{
    alloc::System,
    sync::Arc,
    task::{Context, Waker},
};

use stanchion_admission::{AdmissionLayer, AdmissionPolicy, AdmissionScheduler, AdmissionTicket};
use stanchion_core::{Candidate, Family, RequestClass};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TICKETS: u32 = 100_000;

fn allocated() -> isize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.cast_signed() - stats.bytes_deallocated.cast_signed()
}

/// Bytes for each of 100,000 that wait, of so many owners: those of the scheduler, and those and the future's.
fn measure(owners: u32, classes: &[RequestClass]) -> (isize, isize) {
    let scheduler = AdmissionScheduler::builder().max_pending(TICKETS).owner_max_pending(TICKETS).build().unwrap();
    let policy = AdmissionPolicy::builder().concurrency(1).max_pending(TICKETS).build().unwrap();
    let layer = AdmissionLayer::new(scheduler.clone(), policy);
    let candidate = Arc::new(Candidate::new("p", Family::OpenAi, "https://provider.example/v1"));
    let handle = layer.handle(&candidate);
    let names: Vec<String> = (0..owners).map(|owner| format!("owner {owner}")).collect();
    let admit = |number: u32| {
        let owner = &names[(number % owners) as usize];
        handle.admit(Some(owner), classes[number as usize % classes.len()], 100)
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut running = Box::pin(admit(0));
    let permit = running.as_mut().poll(&mut cx);
    assert!(permit.is_ready());
    let mut waiting: Vec<AdmissionTicket> = Vec::with_capacity(TICKETS as usize);
    let before = allocated();
    waiting.extend((0..TICKETS).map(admit));
    let held = allocated() - before;
    assert_eq!(scheduler.status().queued, TICKETS);
    let each = held / (TICKETS as usize).cast_signed();
    // A storm of cancellations leaves nothing.
    drop(waiting);
    let status = scheduler.status();
    assert_eq!((status.queued, status.pending_bytes, status.owner_count), (0, 0, 1));
    let left = allocated() - before + (TICKETS as usize * size_of::<AdmissionTicket>()).cast_signed();
    assert!(left < 64 << 10, "{left} bytes are left");
    (each, each + size_of::<AdmissionTicket>().cast_signed())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_costs_less_than_300_bytes() {
    use RequestClass::{Background, Foreground, Internal};
    // Bytes that all classes may hold are enough for the small ones here.
    for (owners, classes, limit) in
        [(1, &[Foreground][..], 300), (100, &[Foreground, Background, Internal], 300), (10_000, &[Foreground], 300)]
    {
        let (scheduler, whole) = measure(owners, classes);
        println!(
            "{owners} owners, {} classes: {scheduler} bytes in the scheduler, {whole} with the future",
            classes.len()
        );
        assert!(scheduler < limit, "{scheduler}");
    }
    // The record of an owner, its lane and its place in the rotation included.
    let (scheduler, whole) = measure(TICKETS, &[Foreground]);
    println!("each of its own owner: {scheduler} bytes in the scheduler, {whole} with the future");
    assert!(scheduler < 600, "{scheduler}");
}

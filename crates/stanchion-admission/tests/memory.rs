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

fn allocated() -> isize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.cast_signed() - stats.bytes_deallocated.cast_signed()
}

/// Bytes for each of so many tickets, of so many owners: those of the scheduler, and those and the future's.
fn measure(tickets: u32, owners: u32, classes: &[RequestClass]) -> (isize, isize) {
    let scheduler = AdmissionScheduler::builder().max_pending(tickets).owner_max_pending(tickets).build().unwrap();
    let policy = AdmissionPolicy::builder().concurrency(1).max_pending(tickets).build().unwrap();
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
    let mut waiting: Vec<AdmissionTicket> = Vec::with_capacity(tickets as usize);
    let before = allocated();
    waiting.extend((0..tickets).map(admit));
    let held = allocated() - before;
    assert_eq!(scheduler.status().queued, tickets);
    let each = held / (tickets as usize).cast_signed();
    // A storm of cancellations leaves nothing, in whatever order they leave.
    let (early, late) = waiting.split_at_mut(tickets as usize / 2);
    early.swap_with_slice(&mut late[..tickets as usize / 2]);
    waiting.clear();
    let status = scheduler.status();
    assert_eq!((status.queued, status.pending_bytes, status.owner_count), (0, 0, 1));
    let left = allocated() - before;
    assert!(left < 64 << 10, "{left} bytes are left");
    (each, each + size_of::<AdmissionTicket>().cast_signed())
}

/// How often something is allocated for so many requests that need not wait, of so many owners in turn.
fn allocations(requests: u32, owners: u32) -> usize {
    let policy = AdmissionPolicy::builder().concurrency(8).build().unwrap();
    let layer = AdmissionLayer::new(AdmissionScheduler::new(), policy);
    let handle = layer.handle(&Arc::new(Candidate::new("p", Family::OpenAi, "https://provider.example/v1")));
    let names: Vec<String> = (0..owners).map(|owner| format!("owner {owner}")).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut pass = |number: u32| {
        let owner = &names[(number % owners) as usize];
        let mut permit = std::pin::pin!(handle.admit(Some(owner), RequestClass::Foreground, 100));
        assert!(permit.as_mut().poll(&mut cx).is_ready());
    };
    // Whoever comes first makes room for all who follow.
    (0..100).for_each(&mut pass);
    let before = ALLOCATOR.stats().allocations;
    (0..requests).for_each(pass);
    ALLOCATOR.stats().allocations - before
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_spends_less_than_300_bytes_on_who_waits_and_nothing_on_who_need_not() {
    use RequestClass::{Background, Foreground, Internal};

    assert_eq!([allocations(1_000, 1), allocations(1_000, 7)], [0, 0]);
    let all = [Foreground, Background, Internal];
    // With the future, too, timer and all.
    for (owners, classes) in [(1, &all[..1]), (100, &all), (10_000, &all)] {
        let (scheduler, whole) = measure(100_000, owners, classes);
        println!("100,000 tickets of {owners} owners: {scheduler} bytes in the scheduler, {whole} with the future");
        assert!(whole < 300, "{scheduler}, {whole}");
    }
    // Each with an owner of its own: the owner's record, and its place in the rotation. Also where the index of owners has
    // just grown to twice its size.
    for tickets in [58_000, 100_000] {
        let (scheduler, whole) = measure(tickets, tickets, &all);
        println!(
            "{tickets} tickets, each of its own owner: {scheduler} bytes in the scheduler, {whole} with the future"
        );
        assert!(scheduler < 300, "{scheduler}");
    }
}

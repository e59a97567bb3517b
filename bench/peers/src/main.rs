//! Prints tables in markdown, and whether our goals are met.

use stanchion_peers::{
    decode::{self, Pieces},
    layers::{self, OURS, RESILIENCE, WHOLE},
};

fn main() {
    // Enough to see that all of it works; the figures then say nothing.
    let short = std::env::args().any(|argument| argument == "--short");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    // Timers want one; nothing is ever driven by it.
    let _entered = runtime.enter();

    let (runs, rounds) = if short { (1, 50) } else { (800, 250) };
    let rows = layers::measure(runs, rounds);
    println!("| concern | | 1 thread, ns | each of 2 threads, ns | allocations |\n|---|---|---|---|---|");
    for concern in rows.chunk_by(|one, other| one.concern == other.concern) {
        for (number, row) in concern.iter().enumerate() {
            let concern = if number == 0 { row.concern } else { "" };
            let layers::Row { name, alone, by_two, allocations, .. } = row;
            println!("| {concern} | {name} | {alone:.0} | {by_two:.0} | {allocations:.1} |");
        }
    }

    let decoded = decode::measure(runs, rounds.div_ceil(50));
    println!("\n| pieces | | MiB a second | ours is, times | allocations an event |\n|---|---|---|---|---|");
    for form in decoded.chunk_by(|one, other| one.pieces == other.pieces) {
        let ours = form[0].speed;
        for row in form {
            let pieces = match row.pieces {
                Pieces::Event => "of one event".to_owned(),
                Pieces::Bytes(size) => format!("of {size} bytes"),
            };
            println!(
                "| {} | {} | {:.0} | {:.2} | {:.2} |",
                if row.name == form[0].name { &pieces } else { "" },
                row.name,
                row.speed,
                ours / row.speed,
                row.allocations,
            );
        }
    }

    let cost = |name| rows.iter().find(|row| row.name == name).expect("measured").alone;
    let speed = |name| {
        let row = decoded.iter().find(|row| row.name == name && row.pieces == Pieces::Bytes(16 << 10));
        row.expect("measured").speed
    };
    let ours = speed("`FrameDecoder`");
    println!();
    goal(
        "the whole onion costs less than the same concerns of tower-resilience",
        cost(WHOLE) < cost(RESILIENCE),
        &format!("{:.0} to {:.0} ns", cost(WHOLE), cost(RESILIENCE)),
    );
    goal(
        "our layers of the same concerns cost less than those of tower-resilience",
        cost(OURS) < cost(RESILIENCE),
        &format!("{:.0} to {:.0} ns", cost(OURS), cost(RESILIENCE)),
    );
    for (name, times) in [("sse-stream", 3.0), ("eventsource-stream", 10.0)] {
        let found = ours / speed(name);
        let goal_is = format!("the decoder is {times:.0} times as fast as {name} on pieces of 16 KiB");
        goal(&goal_is, found >= times, &format!("{found:.1} times"));
    }
    let found = ours / 1024.0;
    goal("it scans 1.5 GiB a second on pieces of 16 KiB", found >= 1.5, &format!("{found:.2} GiB a second"));
}

fn goal(goal: &str, met: bool, found: &str) {
    println!("- {goal}: {}, {found}", if met { "met" } else { "not met" });
}

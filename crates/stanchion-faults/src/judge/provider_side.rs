//! What reached the provider.

use crate::client::Reply;
use crate::scenario::Scenario;
use crate::upstream::Ledger;

/// Judges the requests that the provider got, and how its connections fared.
pub(super) fn judge(scenario: &Scenario, reply: &Reply, ledger: &Ledger, complaints: &mut Vec<String>) {
    let expect = &scenario.expect;
    for (candidate, wanted) in &expect.attempts {
        let count = ledger.requests(&scenario.id, candidate).len();
        if !wanted.allows(count) {
            complaints.push(format!("{count} requests reached {candidate}, wanted {wanted}"));
        }
    }
    for (candidate, &wanted) in &expect.gap_at_least {
        if let [first, second, ..] = ledger.requests(&scenario.id, candidate).as_slice() {
            let gap = second.at - first.at;
            if gap < wanted {
                complaints
                    .push(format!("retried {candidate} after {:.2}s, wanted at least {wanted:?}", gap.as_secs_f64()));
            }
        }
    }
    judge_freed(scenario, reply, ledger, complaints);
    let peak = ledger.peak_in_flight(&scenario.id);
    if let Some(most) = expect.peak_inflight_at_most.filter(|&most| peak > most) {
        complaints.push(format!("{peak} in flight at once, wanted at most {most}"));
    }
}

fn judge_freed(scenario: &Scenario, reply: &Reply, ledger: &Ledger, complaints: &mut Vec<String>) {
    let Some(limit) = scenario.expect.upstream_freed_within else { return };
    let candidate = &scenario.expect.freed;
    let requests = ledger.requests(&scenario.id, candidate);
    let Some(last) = requests.last() else {
        complaints.push(format!("no request reached {candidate}"));
        return;
    };
    let ended_at = reply.ended_at.unwrap_or(reply.started_at);
    let after = match last.gone_at.map(|gone_at| gone_at.saturating_duration_since(ended_at)) {
        Some(delay) if delay <= limit => return,
        Some(delay) => format!("after {:.2}s", delay.as_secs_f64()),
        None => "never".to_owned(),
    };
    complaints.push(format!("upstream connection freed {after}, wanted within {limit:?}"));
}

//! What reached the provider.

use crate::client::Reply;
use crate::scenario::{Received, Scenario};
use crate::upstream::{Ledger, RequestRecord};

/// Judges the requests that the provider got, and how its connections fared.
pub(super) fn judge(scenario: &Scenario, reply: &Reply, ledger: &Ledger, complaints: &mut Vec<String>) {
    let expect = &scenario.expect;
    for (candidate, wanted) in &expect.attempts {
        let count = ledger.requests(&scenario.id, candidate).len();
        if !wanted.allows(count) {
            complaints.push(format!("{count} requests reached {candidate}, wanted {wanted}"));
        }
    }
    for (candidate, wishes) in &expect.gap_at_least {
        let requests = ledger.requests(&scenario.id, candidate);
        for (pair, &wanted) in requests.windows(2).zip(wishes) {
            let gap = pair[1].at - pair[0].at;
            if gap < wanted {
                complaints
                    .push(format!("retried {candidate} after {:.2}s, wanted at least {wanted:?}", gap.as_secs_f64()));
            }
        }
    }
    for (candidate, wishes) in &expect.requests {
        judge_requests(candidate, wishes, &ledger.requests(&scenario.id, candidate), complaints);
    }
    judge_freed(scenario, reply, ledger, complaints);
    let peak = ledger.peak_in_flight(&scenario.id);
    if let Some(most) = expect.peak_inflight_at_most.filter(|&most| peak > most) {
        complaints.push(format!("{peak} in flight at once, wanted at most {most}"));
    }
}

/// Judges what stood in the requests that a candidate got.
fn judge_requests(candidate: &str, wishes: &[Received], requests: &[RequestRecord], complaints: &mut Vec<String>) {
    for (index, wish) in wishes.iter().enumerate() {
        let number = index + 1;
        let Some(request) = requests.get(index) else {
            complaints.push(format!("no request {number} reached {candidate}"));
            return;
        };
        let body = String::from_utf8_lossy(&request.body);
        for part in wish.contains.iter().filter(|part| !body.contains(part.as_str())) {
            complaints.push(format!("request {number} to {candidate} lacks {part:?}"));
        }
        for part in wish.lacks.iter().filter(|part| body.contains(part.as_str())) {
            complaints.push(format!("request {number} to {candidate} has {part:?}"));
        }
        for part in wish.path.iter().filter(|part| !request.path.contains(part.as_str())) {
            complaints.push(format!("the path of request {number} to {candidate} lacks {part:?}"));
        }
        for (name, wanted) in &wish.headers {
            let got = request.headers.get(name);
            if got != Some(wanted.as_str()) {
                complaints.push(format!("request {number} to {candidate} has {name} {got:?}, wanted {wanted:?}"));
            }
        }
        for name in wish.headers_lack.iter().filter(|name| request.headers.get(name).is_some()) {
            complaints.push(format!("request {number} to {candidate} has {name}"));
        }
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

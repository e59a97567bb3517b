//! What a reply has used, whatever became of it.

use stanchion_core::{Dialect, Ending, Failure, FailureKind, StreamRecord, Usage, UsageQuality};
use stanchion_usage::{Tally, normalise};

use super::{finished, tokens, with_output};

fn of(record: &StreamRecord, request: u64) -> (Option<u64>, Option<u64>, UsageQuality) {
    let tally = Tally::of(Some(record), Some(Dialect::OpenAiChat), Some(request));
    (tally.tokens.input, tally.tokens.output, tally.quality)
}

#[test]
fn what_a_provider_reports_at_its_end_is_measured() {
    let (record, _recorder) = finished(3, 8, &Usage { cache_read: Some(0), ..tokens(10, 2) });
    assert_eq!(of(&record, 999), (Some(10), Some(2), UsageQuality::Measured));
    // An explicit zero is a zero.
    assert_eq!(Tally::of(Some(&record), None, None).tokens.cache_read, Some(0));
    // An answer without text that has no output is one.
    let (record, mut recorder) = StreamRecord::new();
    recorder.terminal();
    recorder.usage(&tokens(10, 0));
    assert_eq!(of(&record, 999), (Some(10), Some(0), UsageQuality::Measured));
    // Everything from the cache is not nothing.
    let (record, _recorder) = finished(1, 8, &Usage { cache_read: Some(50), ..tokens(0, 2) });
    assert_eq!(of(&record, 999), (Some(0), Some(2), UsageQuality::Measured));
}

#[test]
fn a_cut_stream_is_estimated_from_what_has_passed() {
    // Nothing reported: the request, and a token for four bytes.
    let (record, mut recorder) = with_output(10, 40);
    recorder.end(Ending::Cancelled);
    assert_eq!(of(&record, 25), (Some(25), Some(100), UsageQuality::Estimated));
    // As many tokens as frames, at least.
    let (record, _recorder) = with_output(10, 1);
    assert_eq!(of(&record, 25), (Some(25), Some(10), UsageQuality::Estimated));
    // Anthropic reports its input at once, and one token of output.
    let (record, mut recorder) = with_output(10, 40);
    recorder.usage(&Usage { cache_read: Some(900), ..tokens(10, 1) });
    recorder.end(Ending::Truncated);
    assert_eq!(of(&record, 25), (Some(10), Some(100), UsageQuality::Estimated));
    // A provider that had counted more is right.
    recorder.usage(&tokens(10, 140));
    assert_eq!(of(&record, 25), (Some(10), Some(140), UsageQuality::Estimated));
}

#[test]
fn a_whole_reply_without_usage_is_estimated() {
    let (record, mut recorder) = finished(2, 40, &Usage::default());
    recorder.end(Ending::Complete);
    assert_eq!(of(&record, 25), (Some(25), Some(20), UsageQuality::Estimated));
    // What is known of the cache is no fresh input.
    recorder.usage(&Usage { cache_read: Some(20), cache_write: Some(3), output: Some(7), ..Usage::default() });
    assert_eq!(of(&record, 25), (Some(2), Some(7), UsageQuality::Estimated));
    recorder.usage(&Usage { cache_read: Some(200), ..Usage::default() });
    assert_eq!(of(&record, 25), (Some(0), Some(7), UsageQuality::Estimated));
}

#[test]
fn zeros_are_not_believed_against_the_evidence() {
    let (record, _recorder) = finished(2, 40, &tokens(0, 0));
    assert_eq!(of(&record, 25), (Some(25), Some(20), UsageQuality::Estimated));
    let (record, _recorder) = finished(2, 40, &tokens(9, 0));
    assert_eq!(of(&record, 25), (Some(9), Some(20), UsageQuality::Estimated));
}

#[test]
fn an_error_that_was_passed_on_ends_what_is_measured() {
    let (record, mut recorder) = finished(2, 40, &tokens(9, 5));
    recorder.error(Failure::new(FailureKind::Overloaded));
    assert_eq!(of(&record, 25), (Some(9), Some(20), UsageQuality::Estimated));
}

#[test]
fn what_cannot_be_estimated_is_unknown() {
    let (record, _recorder) = with_output(2, 40);
    assert_eq!(of(&record, 0), (None, Some(20), UsageQuality::Unknown));
    let unread = Tally::of(None, None, Some(25));
    assert_eq!((unread.tokens.input, unread.tokens.output, unread.quality), (Some(25), None, UsageQuality::Unknown));
    assert_eq!(Tally::of(None, None, None).tokens, Usage::default());
}

#[test]
fn embeddings_have_no_output() {
    let (record, mut recorder) = finished(1, 0, &Usage { input: Some(8), ..Usage::default() });
    recorder.end(Ending::Complete);
    let tally = Tally::of(Some(&record), Some(Dialect::OpenAiEmbeddings), Some(9));
    assert_eq!((tally.tokens, tally.quality), (tokens(8, 0), UsageQuality::Measured));
}

#[test]
fn the_lifetimes_of_what_was_written_come_to_what_was_written() {
    let of = |write, short, long| {
        let usage = Usage { cache_write: write, cache_write_5m: short, cache_write_1h: long, ..Usage::default() };
        let usage = normalise(usage);
        (usage.cache_write, usage.cache_write_5m, usage.cache_write_1h)
    };
    for (told, expected) in [
        ((Some(10), None, None), (Some(10), None, None)),
        ((Some(10), Some(4), None), (Some(10), Some(4), Some(6))),
        ((Some(10), None, Some(4)), (Some(10), Some(6), Some(4))),
        ((Some(10), Some(4), Some(6)), (Some(10), Some(4), Some(6))),
        ((Some(10), Some(9), Some(6)), (Some(10), Some(4), Some(6))),
        ((Some(10), Some(0), Some(60)), (Some(10), Some(0), Some(10))),
        ((None, Some(4), Some(6)), (Some(10), Some(4), Some(6))),
        ((None, None, Some(6)), (Some(6), Some(0), Some(6))),
        ((None, None, None), (None, None, None)),
    ] {
        assert_eq!(of(told.0, told.1, told.2), expected, "{told:?}");
    }
}

//! Usage, prices and costs through their public face, on a paused clock.

mod files;
mod laws;
mod layer;
mod lookups;
mod prices;
mod tallies;

use stanchion_core::{FinishReason, StreamRecord, StreamRecorder, Usage};

/// Fresh input and output, and nothing else reported.
fn tokens(input: u64, output: u64) -> Usage {
    Usage { input: Some(input), output: Some(output), ..Usage::default() }
}

/// A record of a reply with output: so many frames with so many bytes of text each.
fn with_output(frames: u64, bytes: usize) -> (StreamRecord, StreamRecorder) {
    let (record, mut recorder) = StreamRecord::new();
    for _ in 0..frames {
        recorder.count(1, 1);
        recorder.text(bytes);
        recorder.output();
    }
    (record, recorder)
}

/// The same, finished by the model.
fn finished(frames: u64, bytes: usize, usage: &Usage) -> (StreamRecord, StreamRecorder) {
    let (record, mut recorder) = with_output(frames, bytes);
    recorder.finish(FinishReason::Stop);
    recorder.usage(usage);
    (record, recorder)
}

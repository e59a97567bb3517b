//! What a reply's bytes mean as they come: pure, without I/O.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use stanchion_core::{
    Context, Dialect, Ending, Event, Failure, FailureKind, FrameEvent, FrameFault, Framing, HoldEvent, Phase,
    StreamRecorder,
};
use stanchion_wire::{
    dialect::{Reading, StreamEnd, StreamReader, read_document},
    frame::{EventTooLarge, Frame, FrameDecoder, is_cut_short, is_whole_json},
};

use super::{
    layer::{Malformed, Settings},
    sniff::{self, Label, Sniffed},
};

/// How much white space may stand before anything that tells: some providers send blank lines while they work.
const MAX_UNDECIDED: usize = 64 * 1024;

/// One reply.
pub(super) struct Reply {
    dialect: Dialect,
    stream: bool,
    label: Label,
    settings: Settings,
    recorder: StreamRecorder,
    context: Option<Context>,
    form: Form,
    output: bool,
    /// Whether frames that are there for the usage alone are for us and not for the client.
    hides_usage: bool,
    fault: Option<Failure>,
}

enum Form {
    /// Nothing telling has come yet.
    Unknown(BytesMut),
    Frames(Box<Framed>),
    /// Held until it is complete.
    Document(Held),
    /// Too large to be held, or read to its end: what comes passes.
    Open(Option<Bytes>),
}

/// The pieces of a document. Most come as one, which is not copied: it keeps the buffer that it was read into, one read's at most.
enum Held {
    One(Bytes),
    Many(BytesMut),
}

impl Held {
    fn push(&mut self, chunk: Bytes) {
        // The last of an HTTP/2 stream is often empty.
        if chunk.is_empty() {
            return;
        }
        match self {
            Self::One(held) => {
                let mut both = BytesMut::with_capacity(held.len() + chunk.len());
                both.extend_from_slice(held);
                both.extend_from_slice(&chunk);
                *self = Self::Many(both);
            }
            Self::Many(held) => held.extend_from_slice(&chunk),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(held) => held.len(),
            Self::Many(held) => held.len(),
        }
    }

    /// All of it, as one piece; nothing stays.
    fn take(&mut self) -> Bytes {
        match std::mem::replace(self, Self::One(Bytes::new())) {
            Self::One(held) => held,
            Self::Many(held) => held.freeze(),
        }
    }
}

struct Framed {
    decoder: FrameDecoder,
    reader: StreamReader,
}

impl Reply {
    pub(super) fn new(
        dialect: Dialect,
        stream: bool,
        headers: &HeaderMap,
        settings: Settings,
        recorder: StreamRecorder,
        context: Option<Context>,
    ) -> Self {
        Self {
            dialect,
            stream,
            label: Label::of(headers),
            settings,
            recorder,
            context,
            form: Form::Unknown(BytesMut::new()),
            output: false,
            hides_usage: false,
            fault: None,
        }
    }

    /// Frames that are there for the usage alone are not passed on.
    pub(super) fn hide_usage(&mut self) {
        self.hides_usage = true;
    }

    /// Takes the next piece of the body.
    pub(super) fn push(&mut self, chunk: Bytes) {
        match &mut self.form {
            Form::Open(next) => {
                // Nobody reads it: the document's own syntax is a small part of it.
                self.recorder.text(chunk.len());
                *next = Some(chunk);
            }
            Form::Document(held) => {
                held.push(chunk);
                self.bound_document();
            }
            Form::Frames(framed) => {
                framed.decoder.push(chunk);
                self.read_frames();
            }
            Form::Unknown(held) => {
                let chunk = if held.is_empty() {
                    chunk
                } else {
                    held.extend_from_slice(&chunk);
                    held.split().freeze()
                };
                match sniff::sniff(self.label, self.dialect, self.stream, &chunk) {
                    Sniffed::Framing(framing) => self.begin(framing, chunk),
                    Sniffed::Undecided if chunk.len() < MAX_UNDECIDED => {
                        self.form = Form::Unknown(BytesMut::from(&chunk[..]));
                    }
                    Sniffed::Undecided | Sniffed::NoReply => {
                        self.fault = Some(before_output(FailureKind::NotModelReply));
                    }
                }
            }
        }
    }

    fn begin(&mut self, framing: Framing, chunk: Bytes) {
        self.recorder.framing(framing);
        if framing == Framing::Document {
            self.form = Form::Document(Held::One(chunk));
            self.bound_document();
        } else {
            let mut decoder = FrameDecoder::new(framing, self.settings.max_event);
            decoder.push(chunk);
            self.form = Form::Frames(Box::new(Framed { decoder, reader: StreamReader::new(self.dialect) }));
            self.read_frames();
        }
    }

    /// A document beyond the bound is no longer held: it counts as output, and the rest of it passes.
    fn bound_document(&mut self) {
        if let Form::Document(held) = &mut self.form
            && held.len() > self.settings.max_document
        {
            let bytes = held.len() as u64;
            self.recorder.text(held.len());
            self.form = Form::Open(Some(held.take()));
            self.output();
            Context::emit(self.context.as_ref(), || Event::CommitHold(HoldEvent { bytes }));
        }
    }

    fn output(&mut self) {
        if !self.output {
            self.output = true;
            self.recorder.output();
        }
    }

    fn read_frames(&mut self) {
        // Borrowed apart, so that a frame can lie in the decoder while everything else changes.
        let Self { form: Form::Frames(framed), recorder, context, settings, output, hides_usage, fault, .. } = self
        else {
            return;
        };
        let Framed { decoder, reader } = &mut **framed;
        loop {
            if let Some(known) = reader.known(decoder.ahead()).filter(|known| known.length <= settings.max_event) {
                decoder.pass(known.length);
                recorder.count(1, 1);
                recorder.text(known.text_bytes);
                continue;
            }
            let frame = match decoder.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(EventTooLarge { limit }) => {
                    Context::emit(context.as_ref(), || {
                        Event::StreamFrame(FrameEvent { fault: FrameFault::TooLarge, bytes: limit as u64 })
                    });
                    *fault = Some(before_output(FailureKind::EventTooLarge));
                    break;
                }
            };
            let read = read_frame(&frame, reader, settings.malformed, context.as_ref());
            let Some(reading) = read else {
                recorder.count(1, 0);
                decoder.drop_last();
                continue;
            };
            recorder.count(1, u64::from(reading.progress));
            let hidden = *hides_usage && reading.only_usage;
            let (keep, failure) = take_note(reading, recorder, output, &frame);
            if hidden || !keep {
                decoder.drop_last();
            }
            if let Some(failure) = failure {
                *fault = Some(failure);
                break;
            }
        }
        if !reader.finished() {
            recorder.resume();
        }
    }

    /// Bytes that may leave.
    pub(super) fn release(&mut self) -> Option<Bytes> {
        match &mut self.form {
            Form::Frames(framed) => framed.decoder.release(),
            Form::Open(next) => next.take(),
            Form::Unknown(_) | Form::Document(_) => None,
        }
    }

    /// The failure that ends the body, once all bytes before it have left.
    pub(super) fn take_fault(&mut self) -> Option<Failure> {
        let fault = self.fault.take()?;
        self.recorder.end(if fault.kind() == FailureKind::Truncated { Ending::Truncated } else { Ending::Failed });
        Some(self.in_phase(fault))
    }

    fn in_phase(&self, failure: Failure) -> Failure {
        failure.with_phase(if self.output { Phase::AfterOutput } else { Phase::BeforeOutput })
    }

    /// The transport failed. A provider that hangs up rudely after the finish has still said everything: that is a clean end.
    pub(super) fn broke(&mut self, failure: Failure) -> Option<Failure> {
        if self.finished() {
            self.recorder.end(Ending::Complete);
            return None;
        }
        self.recorder.end(Ending::Failed);
        Some(self.in_phase(failure))
    }

    /// The body came to its end.
    pub(super) fn finish(&mut self) {
        if self.fault.is_some() {
            return;
        }
        match &mut self.form {
            Form::Unknown(held) => {
                let kind =
                    if held.trim_ascii().is_empty() { FailureKind::EmptyReply } else { FailureKind::NotModelReply };
                self.fault = Some(before_output(kind));
            }
            Form::Open(_) => {
                self.recorder.end(Ending::Complete);
            }
            Form::Document(held) => {
                let document = held.take();
                let reading = read_document(self.dialect, &document);
                if let Some(usage) = &reading.usage {
                    self.recorder.usage(usage);
                }
                self.recorder.text(reading.text_bytes);
                match reading.fault {
                    Some(fault) => self.fault = Some(fault.failure),
                    None => {
                        if let Some(reason) = reading.finish {
                            self.recorder.finish(reason);
                        }
                        self.recorder.terminal();
                        self.recorder.count(1, 1);
                        self.output();
                        self.recorder.end(Ending::Complete);
                        self.form = Form::Open(Some(document));
                    }
                }
            }
            Form::Frames(framed) => {
                let Framed { decoder, reader } = &mut **framed;
                let tail_is_whole = match decoder.finish() {
                    None => true,
                    Some(frame) => {
                        if is_whole_tail(&frame) {
                            let reading = reader.read(&frame);
                            self.recorder.count(1, u64::from(reading.progress));
                            let hidden = self.hides_usage && reading.only_usage;
                            let (keep, failure) = take_note(reading, &mut self.recorder, &mut self.output, &frame);
                            self.fault = failure;
                            keep && !hidden
                        } else {
                            false
                        }
                    }
                };
                if !tail_is_whole {
                    decoder.drop_last();
                }
                if self.fault.is_none() {
                    match reader.end(decoder.stray()) {
                        StreamEnd::Complete => {
                            let failed = self.recorder.record().error().is_some();
                            self.recorder.end(if failed { Ending::Failed } else { Ending::Complete });
                        }
                        StreamEnd::Failed(failure) => self.fault = Some(failure),
                    }
                }
                if self.fault.is_some() {
                    decoder.end_last();
                }
            }
        }
    }

    /// Whether everything that must come has come.
    fn finished(&self) -> bool {
        matches!(&self.form, Form::Frames(framed) if framed.reader.finished())
    }

    /// Whether bytes or a failure wait to leave.
    pub(super) fn has_more(&self) -> bool {
        self.fault.is_some()
            || match &self.form {
                Form::Unknown(held) => !held.is_empty(),
                Form::Document(held) => held.len() > 0,
                Form::Frames(framed) => framed.decoder.has_released(),
                Form::Open(next) => next.is_some(),
            }
    }

    /// How many bytes are held.
    pub(super) fn held(&self) -> usize {
        match &self.form {
            Form::Unknown(held) => held.len(),
            Form::Document(held) => held.len(),
            Form::Frames(framed) => framed.decoder.held(),
            Form::Open(next) => next.as_ref().map_or(0, Bytes::len),
        }
    }

    /// Whether as many bytes leave as come: frames may be dropped, documents are not.
    pub(super) fn keeps_length(&self) -> bool {
        match self.form {
            Form::Frames(_) => false,
            Form::Unknown(_) => !self.stream,
            Form::Document(_) | Form::Open(_) => true,
        }
    }

    /// The body was dropped before its end.
    pub(super) fn dropped(&mut self) {
        self.recorder.end(if self.finished() { Ending::Complete } else { Ending::Cancelled });
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("dialect", &self.dialect)
            .field("held_bytes", &self.held())
            .finish_non_exhaustive()
    }
}

fn before_output(kind: FailureKind) -> Failure {
    Failure::new(kind).with_phase(Phase::BeforeOutput)
}

/// Reads one frame; `None` if it is cut short and is to be left out.
fn read_frame(
    frame: &Frame<'_>,
    reader: &mut StreamReader,
    malformed: Malformed,
    context: Option<&Context>,
) -> Option<Reading> {
    if frame.data.as_deref().is_some_and(is_cut_short) {
        let fault =
            if malformed == Malformed::Pass { FrameFault::MalformedPassed } else { FrameFault::MalformedDropped };
        let bytes = frame.raw.len() as u64;
        Context::emit(context, || Event::StreamFrame(FrameEvent { fault, bytes }));
        match malformed {
            Malformed::Pass => {}
            Malformed::Drop => return None,
            Malformed::Fail => return Some(Reading::failed(before_output(FailureKind::MalformedReply))),
        }
    }
    Some(reader.read(frame))
}

/// Writes a reading down. Returns whether the frame is passed on, and the failure that ends the stream after it.
fn take_note(
    reading: Reading,
    recorder: &mut StreamRecorder,
    output: &mut bool,
    frame: &Frame<'_>,
) -> (bool, Option<Failure>) {
    if let Some(usage) = &reading.usage {
        recorder.usage(usage);
    }
    recorder.text(reading.text_bytes);
    if reading.output && !*output {
        *output = true;
        recorder.output();
    }
    if let Some(fault) = reading.fault {
        return if !*output {
            // Nothing was shown: the attempt has failed, and nobody sees the frame.
            (false, Some(fault.failure))
        } else if fault.told {
            recorder.error(fault.failure);
            (true, None)
        } else {
            // An end marker would tell the client that all is well.
            let marker = frame.data.as_deref().is_some_and(|data| data.trim_ascii() == b"[DONE]");
            (!marker, Some(fault.failure))
        };
    }
    if let Some(reason) = reading.finish {
        recorder.finish(reason);
    }
    if reading.terminal {
        recorder.terminal();
    }
    (true, None)
}

/// Whether an event that lacks its blank line is whole all the same: no data, an end marker, or complete JSON.
fn is_whole_tail(frame: &Frame<'_>) -> bool {
    match frame.data.as_deref() {
        None => frame.comment || frame.raw.trim_ascii().is_empty() || frame.raw.trim_ascii() == b"]",
        Some(data) => data.trim_ascii() == b"[DONE]" || is_whole_json(data),
    }
}

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::Failure;

use super::{Coding, Corrupt, DecodeError, Decoder};

/// How much one frame of decoded bytes holds at most.
const FRAME: usize = 16 * 1024;

/// What gzip begins with.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

pin_project! {
    /// A body, decoded as it streams.
    pub(crate) struct Decoded<B> {
        #[pin]
        inner: B,
        state: State,
    }
}

enum State {
    /// Not coded: everything passes untouched.
    Plain,
    /// Nothing has come yet but perhaps the first byte of gzip's magic.
    Untold {
        held: bool,
    },
    Coded(Box<Coded>),
    /// One more frame, and then the end.
    Last(Option<Frame<Bytes>>),
    Ended,
}

struct Coded {
    decoder: Decoder,
    input: Bytes,
    /// Whether the decoder has written all that it can.
    drained: bool,
    /// Whether any byte has come: a reply without a body is no broken coding.
    begun: bool,
    output: Box<[u8]>,
}

impl Coded {
    fn new(decoder: Decoder, input: Bytes) -> Self {
        Self { decoder, begun: !input.is_empty(), input, drained: false, output: vec![0; FRAME].into() }
    }

    fn feed(&mut self, input: Bytes) {
        self.begun |= !input.is_empty();
        self.input = input;
        self.drained = false;
    }

    /// The next decoded bytes; `None` if there is nothing more without further input.
    fn next(&mut self) -> Result<Option<Bytes>, DecodeError> {
        while !self.drained {
            let step = self.decoder.step(&self.input, &mut self.output).map_err(|Corrupt| self.corrupt())?;
            self.input.advance(step.read);
            if step.read == 0 && step.written == 0 {
                if !self.input.is_empty() {
                    return Err(self.corrupt());
                }
                self.drained = true;
            }
            if step.written > 0 {
                return Ok(Some(Bytes::copy_from_slice(&self.output[..step.written])));
            }
        }
        Ok(None)
    }

    fn finish(&self) -> Result<(), DecodeError> {
        if self.decoder.at_end() || !self.begun {
            return Ok(());
        }
        Err(DecodeError::Interrupted { coding: self.decoder.name() })
    }

    fn corrupt(&self) -> DecodeError {
        DecodeError::Corrupt { coding: self.decoder.name() }
    }
}

impl<B> Decoded<B> {
    pub(crate) fn new(inner: B, coding: Coding) -> Self {
        let state = match (Decoder::new(coding), coding) {
            (Some(decoder), _) => State::Coded(Box::new(Coded::new(decoder, Bytes::new()))),
            (None, Coding::Untold) => State::Untold { held: false },
            (None, _) => State::Plain,
        };
        Self { inner, state }
    }
}

/// What goes out for what came in.
enum Taken {
    Pass(Option<Frame<Bytes>>),
    Nothing,
}

impl State {
    fn take(&mut self, frame: Option<Frame<Bytes>>) -> Result<Taken, DecodeError> {
        let (data, other) = match frame.map(Frame::into_data) {
            Some(Ok(data)) => (Some(data), None),
            Some(Err(other)) => (None, Some(other)),
            None => (None, None),
        };
        match (self, data) {
            (Self::Plain, Some(data)) => Ok(Taken::Pass(Some(Frame::data(data)))),
            (state @ Self::Untold { .. }, Some(data)) => Ok(state.sniff(data)),
            (Self::Coded(coded), Some(data)) => {
                coded.feed(data);
                Ok(Taken::Nothing)
            }
            (state @ Self::Untold { held: true }, None) => {
                *state = Self::Last(other);
                Ok(Taken::Pass(Some(Frame::data(Bytes::from_static(&MAGIC[..1])))))
            }
            // The end, or trailers, which nothing but the end follows.
            (state, None) => {
                if let Self::Coded(coded) = state {
                    coded.finish()?;
                }
                *state = Self::Ended;
                Ok(Taken::Pass(other))
            }
            (Self::Last(_) | Self::Ended, Some(_)) => Ok(Taken::Pass(None)),
        }
    }

    /// The first bytes of a body whose head tells no coding.
    fn sniff(&mut self, data: Bytes) -> Taken {
        let data = match self {
            Self::Untold { held: true } => [&MAGIC[..1], &data].concat().into(),
            _ => data,
        };
        *self = match *data {
            [] => return Taken::Pass(Some(Frame::data(data))),
            [first] if first == MAGIC[0] => Self::Untold { held: true },
            [first, second, ..] if [first, second] == MAGIC => Self::Coded(Box::new(Coded::new(Decoder::gzip(), data))),
            _ => {
                *self = Self::Plain;
                return Taken::Pass(Some(Frame::data(data)));
            }
        };
        Taken::Nothing
    }
}

impl<B> Body for Decoded<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let mut this = self.project();
        loop {
            match this.state {
                State::Ended => return Poll::Ready(None),
                State::Last(last) => {
                    let last = last.take();
                    *this.state = State::Ended;
                    return Poll::Ready(last.map(Ok));
                }
                State::Coded(coded) => match coded.next() {
                    Ok(Some(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Ok(None) => {}
                    Err(error) => {
                        *this.state = State::Ended;
                        return Poll::Ready(Some(Err(error.into())));
                    }
                },
                State::Plain | State::Untold { .. } => {}
            }
            let frame = match ready!(this.inner.as_mut().poll_frame(cx)) {
                // As nearly all are: not taken apart.
                Some(Ok(frame)) if frame.is_data() && matches!(this.state, State::Plain) => {
                    return Poll::Ready(Some(Ok(frame)));
                }
                Some(Ok(frame)) => Some(frame),
                None => None,
                Some(Err(error)) => {
                    *this.state = State::Ended;
                    return Poll::Ready(Some(Err(error.into())));
                }
            };
            match this.state.take(frame) {
                Ok(Taken::Pass(frame)) => return Poll::Ready(frame.map(Ok)),
                Ok(Taken::Nothing) => {}
                Err(error) => {
                    *this.state = State::Ended;
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Ended => true,
            State::Plain | State::Untold { held: false } => self.inner.is_end_stream(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Ended => SizeHint::with_exact(0),
            State::Plain => self.inner.size_hint(),
            State::Untold { held: false } if self.inner.is_end_stream() => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }
}

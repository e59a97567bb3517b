use std::{pin::Pin, task::Waker};

use pin_project_lite::pin_project;
use stanchion_core::StreamRecord;
use tokio::time::{Instant, Sleep};

use super::{
    AttemptLimits,
    about::About,
    watch::{Stage, Watch},
};

pin_project! {
    /// The clocks of one attempt, with what is told of it and what its body has come to. One box from the call to the end of
    /// the body: timer and limits are large, and futures and replies are moved through all the layers outside.
    #[project = ClocksProjection]
    #[derive(Debug)]
    pub(super) struct Clocks {
        pub(super) watch: Watch,
        pub(super) about: About,
        // One timer for all clocks, armed only once there is something to wait for. It may be armed too early, never too
        // late: so that not every frame has to move it.
        #[pin]
        pub(super) sleep: Option<Sleep>,
        // None once it has to be looked at anew.
        pub(super) armed: Option<Armed>,
        pub(super) record: Option<StreamRecord>,
        // The stage before the frame that came last.
        pub(super) told: Stage,
        pub(super) progress: u64,
        pub(super) frames: u64,
        pub(super) unlooked: u32,
    }
}

/// What the timer was armed for. As long as the stage is the same and no stall has been told, every clock only moves away from where it
/// stood then; so the timer rings in time, and wakes whom it was told to.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) stage: Stage,
    pub(super) waker: Waker,
}

impl Armed {
    pub(super) fn still_holds(&self, stage: Stage, sleep: Option<&Sleep>, waker: &Waker) -> bool {
        self.stage == stage && self.waker.will_wake(waker) && sleep.is_some_and(|sleep| !sleep.is_elapsed())
    }
}

impl Clocks {
    /// The clocks of an attempt that begins, and for whose head one waits.
    pub(super) fn started(limits: &AttemptLimits, about: About, now: Instant) -> Pin<Box<Self>> {
        let mut watch = Watch::new(*limits, now, about.streams, about.tokens);
        watch.waits(now);
        Box::pin(Self {
            watch,
            about,
            sleep: None,
            armed: None,
            record: None,
            told: Stage::BeforeOutput,
            progress: 0,
            frames: 0,
            unlooked: 0,
        })
    }

    /// The head has come, with the record of what follows.
    pub(super) fn answered(self: Pin<&mut Self>, record: Option<StreamRecord>, now: Instant) {
        let mut this = self.project();
        this.watch.answered(now);
        this.sleep.set(None);
        *this.record = record;
    }
}

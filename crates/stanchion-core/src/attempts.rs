use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::Request;

use crate::{Selected, StreamRecord};

/// What each of a request's attempts was answered, for whoever keeps account of it.
///
/// A reply that is thrown away before anybody saw it, or that the client did not wait for, has been paid for all the
/// same. Whoever keeps account [attaches](Self::attach) a list to the request; the observing layer writes down in it what it
/// sends and what comes back. A clone is one count up: all clones are one list.
///
/// ```
/// use stanchion_core::{Attempts, StreamRecord};
///
/// let attempts = Attempts::default();
/// // Refused: nobody has to pay for that.
/// attempts.begin(None).unwrap().refused();
/// // Answered, and another that is still waited for.
/// let (record, _recorder) = StreamRecord::new();
/// attempts.begin(None).unwrap().answered(&record);
/// drop(attempts.begin(None));
///
/// let told = attempts.take();
/// assert!(told[0].record.as_ref().is_some_and(|told| told.is_same(&record)));
/// assert!(told[1].record.is_none() && told.len() == 2 && attempts.take().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Attempts(Arc<Mutex<Vec<AttemptReply>>>);

/// One attempt that was sent, and not refused. See [`Attempts`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AttemptReply {
    /// Who was asked, where that is known.
    pub selected: Option<Selected>,
    /// What has passed of the reply; `None` if not even its head came before it was given up.
    pub record: Option<StreamRecord>,
}

/// Writes down how an attempt was answered. If it says nothing, the attempt was given up before its answer.
#[derive(Debug)]
#[must_use]
pub struct AttemptEntry {
    attempts: Attempts,
    place: usize,
}

impl Attempts {
    /// How many are written down. Further ones are not: a request that comes to so many has other troubles.
    pub const MOST: usize = 256;

    /// Where a request's attempts are written down; `None` if nobody keeps account of them.
    pub fn of<B>(request: &Request<B>) -> Option<&Self> {
        request.extensions().get()
    }

    /// Has a request's attempts written down in the list that is returned: one of its own, not its
    /// [`Context`](crate::Context)'s, since who sends a request twice at once keeps two accounts.
    pub fn attach<B>(request: &mut Request<B>) -> Self {
        let list = Self::default();
        request.extensions_mut().insert(list.clone());
        list
    }

    /// An attempt is sent. `None` if there are [as many](Self::MOST) already.
    pub fn begin(&self, selected: Option<Selected>) -> Option<AttemptEntry> {
        let mut list = self.list();
        let place = list.len();
        if place >= Self::MOST {
            return None;
        }
        list.push(AttemptReply { selected, record: None });
        drop(list);
        Some(AttemptEntry { attempts: self.clone(), place })
    }

    /// All that were written down, in order. They are not told again.
    pub fn take(&self) -> Vec<AttemptReply> {
        mem::take(&mut *self.list())
    }

    fn list(&self) -> MutexGuard<'_, Vec<AttemptReply>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AttemptEntry {
    /// A reply has begun.
    pub fn answered(self, record: &StreamRecord) {
        if let Some(reply) = self.attempts.list().get_mut(self.place) {
            reply.record = Some(record.clone());
        }
    }

    /// There was no connection, the provider refused, or what it answers is not read: there is nothing to tell of it.
    pub fn refused(self) {
        let mut list = self.attempts.list();
        // One attempt follows the other. Where they do not, one too many is told rather than another's.
        if self.place + 1 == list.len() {
            list.pop();
        }
    }
}

impl fmt::Debug for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").field("told", &self.list().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;

    #[test]
    fn each_account_of_one_request_has_a_list_of_its_own() {
        let mut request = Request::new(());
        request.extensions_mut().insert(Context::default());
        assert!(Attempts::of(&request).is_none());
        let mut other = request.clone();
        let (list, others) = (Attempts::attach(&mut request), Attempts::attach(&mut other));
        assert!(Attempts::of(&request.clone()).unwrap().begin(None).is_some());
        assert_eq!((list.take().len(), others.take().len()), (1, 0));
    }

    #[test]
    fn a_list_has_an_end() {
        let attempts = Attempts::default();
        for _ in 0..Attempts::MOST {
            assert!(attempts.begin(None).is_some());
        }
        assert!(attempts.clone().begin(None).is_none());
        assert_eq!(attempts.take().len(), Attempts::MOST);
    }

    #[test]
    fn attempts_that_overlap_keep_their_places() {
        let attempts = Attempts::default();
        let (first, second) = (attempts.begin(None).unwrap(), attempts.begin(None).unwrap());
        let (record, _recorder) = StreamRecord::new();
        first.refused();
        second.answered(&record);
        let told = attempts.take();
        assert!(told[0].record.is_none() && told[1].record.as_ref().unwrap().is_same(&record));
        // What comes late finds an empty list.
        let late = attempts.begin(None).unwrap();
        attempts.take();
        late.answered(&record);
        assert!(attempts.take().is_empty());
    }
}

//! What is out: requests that wait for their answer, and messages that are on their way in segments.

use sm::mad::RmppKind;
use sm::rmpp::{Sender, Step};
use sm::{Mad, Nanos, SaMad, SmAddress};

use crate::header::Header;

/// Which message: the agent, its transaction and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub high_half: u32,
    pub transaction: u64,
    pub class: u8,
    /// It answers something.
    pub response: bool,
    /// To whom an answer goes: two requesters may have chosen the same transaction.
    pub peer: u16,
}

/// One message.
#[derive(Debug)]
pub(crate) struct Out {
    pub to: SmAddress,
    /// As the program wrote it, for when it comes back unanswered.
    pub header: Header,
    pub first: Mad,
    content: Content,
    retries: u32,
    /// When an answer is due; `None` while segments are still on their way.
    due: Option<Nanos>,
}

#[derive(Debug)]
enum Content {
    One,
    Segmented { header: Box<SaMad>, data: Vec<u8>, sender: Option<Sender> },
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on.
    Out,
    /// It is done with: nobody waits for an answer, or its transfer ended.
    Over,
    /// Nobody has answered in time.
    Unanswered,
}

impl Out {
    pub fn one(to: SmAddress, header: Header, mad: Mad) -> Self {
        Self { to, header, first: mad, content: Content::One, retries: header.retries, due: None }
    }

    pub fn segmented(to: SmAddress, header: Header, mad: Box<SaMad>, data: Vec<u8>) -> Self {
        let first = mad.with_data(&data).emit();
        let content = Content::Segmented { header: mad, data, sender: None };
        Self { to, header, first, content, retries: header.retries, due: None }
    }

    /// Sends it, or begins to.
    pub fn start(&mut self, now: Nanos) -> (Vec<Mad>, Fate) {
        match &mut self.content {
            Content::One => {
                self.wait(now);
                (vec![self.first], self.fate())
            }
            Content::Segmented { header, data, sender } => {
                let (started, step) = Sender::start(now, header, data);
                *sender = Some(started);
                self.due = None;
                (step.send, Fate::Out)
            }
        }
    }

    fn wait(&mut self, now: Nanos) {
        let span = Nanos::from_millis(self.header.timeout_ms.into());
        self.due = (span.0 > 0).then(|| now.after(span));
    }

    fn fate(&self) -> Fate {
        if self.due.is_some() { Fate::Out } else { Fate::Over }
    }

    /// Whether segments of it are on their way.
    pub const fn is_segmenting(&self) -> bool {
        matches!(self.content, Content::Segmented { sender: Some(_), .. })
    }

    /// The answer comes in segments: the next one has the whole time.
    pub fn answer_goes_on(&mut self, now: Nanos) {
        if self.due.is_some() {
            self.wait(now);
        }
    }

    /// An acknowledgement, stop or abort of its segments.
    pub fn acknowledged(&mut self, now: Nanos, mad: &SaMad) -> (Vec<Mad>, Fate) {
        let Content::Segmented { sender: Some(sender), .. } = &mut self.content else {
            return (Vec::new(), Fate::Out);
        };
        let ended = matches!(mad.rmpp.kind, RmppKind::Stop | RmppKind::Abort);
        let step = sender.receive(now, mad);
        // What is sent at the end is an abort.
        let failed = ended || !step.send.is_empty();
        self.after(now, step, failed)
    }

    fn after(&mut self, now: Nanos, step: Step, failed: bool) -> (Vec<Mad>, Fate) {
        if !step.finished {
            return (step.send, Fate::Out);
        }
        if let Content::Segmented { sender, .. } = &mut self.content {
            *sender = None;
        }
        // What did not arrive is not answered either.
        if failed && self.header.timeout_ms > 0 {
            return (step.send, Fate::Unanswered);
        }
        self.wait(now);
        (step.send, if failed { Fate::Over } else { self.fate() })
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn deadline(&self) -> Option<Nanos> {
        match &self.content {
            Content::Segmented { sender: Some(sender), .. } => Some(sender.deadline()),
            _ => self.due,
        }
    }

    /// Sends again, or gives up. Early calls are harmless.
    pub fn handle_timeout(&mut self, now: Nanos) -> (Vec<Mad>, Fate) {
        if let Content::Segmented { sender: Some(sender), .. } = &mut self.content {
            let step = sender.handle_timeout(now);
            return self.after(now, step, true);
        }
        if self.due.is_none_or(|due| due > now) {
            return (Vec::new(), Fate::Out);
        }
        match self.retries.checked_sub(1) {
            None => (Vec::new(), Fate::Unanswered),
            Some(left) => {
                self.retries = left;
                self.start(now)
            }
        }
    }
}

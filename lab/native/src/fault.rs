//! What can go wrong.

use std::io;

/// What the driver must not do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A message is not in one piece, or does not begin where its memory does.
    #[error("a message is not one piece from the start of its memory")]
    Message,
    /// The queue was full though everything is completed at once.
    #[error("the driver handed a packet back")]
    HandedBack,
    /// Two threads would share it.
    #[error("the driver posts to the queue of another thread, or polls its CQ")]
    Queue,
    /// It keeps messages, or has freed others.
    #[error("the driver does not free a message that it has sent, or frees another one")]
    Freed,
    /// What it took was not posted.
    #[error("the driver took packets that never came to the adapter")]
    NotPosted,
    /// A receive is in one piece here.
    #[error("the driver posts a receive of several pieces")]
    Pieces,
    /// It asks for what messages here do not have.
    #[error("the driver asks for the offsets of a checksum")]
    Offload,
    /// It would not run.
    #[error("the driver wakes a thread that is not here")]
    Wakes,
    /// Nobody knows it.
    #[error("the driver triggers a soft interrupt that it does not have")]
    Interrupt,
    /// What is posted is too little, or too short.
    #[error("the driver has no receive for a datagram")]
    NoReceive,
    /// It would not be called.
    #[error("the driver's receive CQ is not armed after its interrupt")]
    NotArmed,
    /// An interrupt returned too early.
    #[error("the driver leaves completions to somebody who is not here")]
    Left,
    /// What came in did not come up.
    #[error("the driver did not hand up what came in")]
    NotReceived,
    /// A thread ended early.
    #[error("a thread panicked")]
    Panicked,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The links' machine does not stand still meanwhile, so others may be in the driver: its threads run in parallel, or this is none of them.
    #[error("this is no thread of a machine that stands still meanwhile")]
    NotStill,
    /// The driver has no such ring.
    #[error("no transmit ring {0:?}")]
    NoRing(Option<usize>),
    /// No channel of the host has receives, or several have some.
    #[error("{0} channels have receives, not one")]
    NoChannel(usize),
    /// It has no such function.
    #[error("the driver has no {0}")]
    NoThread(&'static str),
    /// Two tasks have the same ring.
    #[error("two threads would send by transmit ring {0:?}")]
    SameRing(Option<usize>),
    /// They do not fit any more.
    #[error("the receives cannot be given back to the adapter: {0}")]
    Receives(#[source] fabric::Error),
    /// A module's text cannot be changed.
    #[error("the text of a module cannot be written: {0}")]
    Text(#[source] io::Error),
    /// It may not be.
    #[error("a thread cannot be pinned to processor {0}: {1}")]
    Pin(usize, #[source] io::Error),
    /// There is no thread to be had.
    #[error("no thread: {0}")]
    Thread(#[source] io::Error),
    /// Another thread could not be had.
    #[error("called off")]
    CalledOff,
    /// The driver did something else than to send one packet after the other.
    #[error(transparent)]
    Driver(#[from] Fault),
}

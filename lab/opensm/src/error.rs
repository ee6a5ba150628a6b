//! Why OpenSM does not run, each in one line.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why OpenSM does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that has to be installed first.
    #[error("OpenSM needs {what}, which is not installed: apt-get install {package}")]
    Missing {
        /// A command or library.
        what: &'static str,
        /// The Debian package it is in.
        package: &'static str,
    },
    /// ibsim has a table of ten clients.
    #[error(
        "ibsim serves 10 clients: OpenSM and {max} adapters; this fabric has {0}",
        max = crate::MAX_ADAPTERS
    )]
    TooManyAdapters(usize),
    /// Nobody would ask the manager anything.
    #[error("OpenSM needs at least one adapter in the fabric")]
    NoAdapter,
    /// A partition that partitions.conf cannot express.
    #[error("partition {0}: {1}")]
    Partition(String, &'static str),
    /// A program ended although it should go on.
    #[error("{program} ended ({status}): {tail}")]
    Ended {
        /// `ibsim` or `opensm`.
        program: &'static str,
        /// Its exit status.
        status: String,
        /// The end of its log.
        tail: String,
    },
    /// A program that lives, but does not do what it is there for.
    #[error("{program} was not ready after {after:?}: {tail}")]
    NotReady {
        /// `ibsim` or `opensm`.
        program: &'static str,
        /// The patience that ran out.
        after: Duration,
        /// The end of its log.
        tail: String,
    },
    /// ibsim did not let an adapter in.
    #[error("ibsim refused the adapter {0}")]
    Refused(String),
    /// A port that is not in the topology.
    #[error("OpenSM's subnet has no port {0}")]
    UnknownPort(sm::Guid),
    /// A query that was not answered in its time.
    #[error("OpenSM did not answer: {0}")]
    Unanswered(String),
    /// The operating system refused something.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        error: io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }
}

/// The last lines of the first log that has any, as one line.
pub(crate) fn tail(logs: &[PathBuf]) -> String {
    const LINES: usize = 3;
    for log in logs {
        let text = std::fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if !lines.is_empty() {
            return lines[lines.len().saturating_sub(LINES)..].join(" | ");
        }
    }
    "it said nothing".to_owned()
}

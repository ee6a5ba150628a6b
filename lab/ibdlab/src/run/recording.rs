//! The capture of a run: where somebody asked for it, or in a temporary file if a step reads it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use anyhow::{Context, Result};
use lab_ibtf::{Capture, InfiniBand};

use crate::scenario::{Scenario, Step};

/// A capture, and its file.
pub struct Recording {
    /// `None` once it has ended.
    running: Option<Capture>,
    file: Place,
}

enum Place {
    Kept(PathBuf),
    /// It has no name, so it goes with the process, however that ends.
    Temporary(File),
}

impl Recording {
    /// Begins one if `asked` names a file or a step of the scenario needs it.
    pub fn begin(
        infiniband: &InfiniBand,
        scenario: &Scenario,
        asked: Option<PathBuf>,
    ) -> Result<Option<Self>> {
        let read = scenario.step.iter().any(|step| matches!(step.get_ref(), Step::Counts(_)));
        let file = match asked {
            Some(path) => Place::Kept(path),
            None if read => {
                Place::Temporary(tempfile::tempfile().context("a temporary file for the capture")?)
            }
            None => return Ok(None),
        };
        let path = file.path();
        let running = infiniband
            .capture(&path, None)
            .with_context(|| format!("cannot write the capture {}", path.display()))?;
        Ok(Some(Self { running: Some(running), file }))
    }

    /// Ends the capture, unless it has ended, so that it can be read; frames from now on are not in it.
    pub fn end(&mut self) -> Result<PathBuf> {
        let path = self.file.path();
        if let Some(capture) = self.running.take() {
            capture.finish().with_context(|| format!("the capture {}", path.display()))?;
        }
        Ok(path)
    }
}

impl Place {
    /// A name by which this process can open it.
    fn path(&self) -> PathBuf {
        match self {
            Self::Kept(path) => path.clone(),
            Self::Temporary(file) => format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
        }
    }
}

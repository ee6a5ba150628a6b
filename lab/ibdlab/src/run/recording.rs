//! The capture of a run: where somebody asked for it, or in a temporary file if a step reads it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lab_ibtf::{Capture, InfiniBand};
use tempfile::TempPath;

use crate::scenario::{Scenario, Step};

/// A capture, and its file.
pub struct Recording {
    /// `None` once it has ended.
    running: Option<Capture>,
    file: Place,
}

enum Place {
    Kept(PathBuf),
    /// Removed with the value, however the run ends.
    Temporary(TempPath),
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
            None if read => Place::Temporary(
                tempfile::Builder::new()
                    .prefix("ibdlab-")
                    .suffix(".pcapng")
                    .tempfile()
                    .context("a temporary file for the capture")?
                    .into_temp_path(),
            ),
            None => return Ok(None),
        };
        let path = file.path();
        let running = infiniband
            .capture(path)
            .with_context(|| format!("cannot write the capture {}", path.display()))?;
        Ok(Some(Self { running: Some(running), file }))
    }

    /// Ends the capture, unless it has ended, so that it can be read; frames from now on are not in it.
    pub fn end(&mut self) -> Result<&Path> {
        let path = self.file.path();
        if let Some(capture) = self.running.take() {
            capture.finish().with_context(|| format!("the capture {}", path.display()))?;
        }
        Ok(path)
    }
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(path) => path,
        }
    }
}

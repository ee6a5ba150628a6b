//! Traffic in the background, for a time.

use std::time::Duration;

use super::{App, Outcome};
use crate::stack::Stack;

/// Runs an application until it ends or a time has come.
pub struct Until {
    app: Box<dyn App>,
    end: Duration,
}

impl Until {
    /// The application, taken away at `end`.
    pub fn new(app: impl App + 'static, end: Duration) -> Self {
        Self { app: Box::new(app), end }
    }
}

impl App for Until {
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome> {
        if now < self.end {
            return self.app.run(now, stack);
        }
        self.app.abandon(stack);
        Some(Outcome::Over)
    }

    fn abandon(&mut self, stack: &mut Stack) {
        self.app.abandon(stack);
    }

    fn wake_at(&self) -> Option<Duration> {
        Some(self.app.wake_at().map_or(self.end, |at| at.min(self.end)))
    }
}

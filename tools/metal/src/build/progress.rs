//! What the person who waits sees: a line a stage, and how far the stage is.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A stage that is under way.
#[derive(Debug)]
pub struct Stage {
    name: &'static str,
    bar: ProgressBar,
}

impl Stage {
    /// Begins a stage of `steps`, or of one if it has none to count.
    pub fn begin(name: &'static str, steps: usize) -> Stage {
        let bar = ProgressBar::new(steps as u64).with_prefix(name);
        let template = match steps {
            0 | 1 => "{prefix:10} {spinner} {wide_msg}",
            _ => "{prefix:10} {bar:30} {pos}/{len}, {eta} left  {wide_msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Stage { name, bar }
    }

    /// Says what is worked on.
    pub fn at(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// One step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Ends the stage with a line that stays: what came of it.
    pub fn end(self, what: &str) {
        self.bar.finish_and_clear();
        let took = match self.bar.elapsed().as_secs_f64() {
            short if short < 60.0 => format!("{short:.1} s"),
            long => format!("{}:{:02.0} min", (long / 60.0) as u64, long % 60.0),
        };
        eprintln!("{:10} {what} ({took})", self.name);
    }
}

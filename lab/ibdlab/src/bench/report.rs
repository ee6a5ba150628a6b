//! What was found: a table for people, JSON for programs.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::own::{Own, WholePath};
use super::rows::Row;
use super::traffic::Way;

/// Everything a run found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub seed: u64,
    pub machine: String,
    /// How instructions were counted, or why they were not.
    pub instructions: String,
    pub own: Vec<Own>,
    /// Instructions of the whole path of a packet that is sent, and of the bare loop's.
    pub paths: Vec<WholePath>,
    pub calibration: Vec<Primitive>,
    /// What any driver must do, and nothing else.
    pub bare: Vec<Bare>,
    /// How long the subnet administrator of the rows with a delay takes, and who says so.
    pub sa_delay: String,
    pub rows: Vec<Row>,
    pub facts: Vec<Fact>,
    pub targets: Vec<Target>,
}

/// Something of the lab's own that every driver pays for alike.
#[derive(Debug, Serialize)]
pub struct Primitive {
    pub name: String,
    pub ns: f64,
}

/// The bare loop.
#[derive(Debug, Serialize)]
pub struct Bare {
    /// Bytes of an IP packet.
    pub len: usize,
    pub ns_per_packet: f64,
    pub sent: u64,
    /// Counted at the far end.
    pub arrived: u64,
}

/// One more figure.
#[derive(Debug, Serialize)]
pub struct Fact {
    pub what: String,
    pub driver: String,
    pub value: f64,
    pub unit: String,
}

impl Fact {
    /// As a line.
    pub fn line(&self) -> String {
        format!("{}: {} {:.2} {}", self.what, self.driver, self.value, self.unit)
    }
}

/// What was to be reached.
#[derive(Debug, Serialize)]
pub struct Target {
    pub what: String,
    pub wanted: String,
    pub figure: String,
    /// `None`: not measured.
    pub met: Option<bool>,
}

impl Report {
    /// The rows of one load, found by their driver.
    pub fn row(
        &self,
        driver: &str,
        way: Way,
        addresses: usize,
        len: usize,
        sa_delay_ns: u64,
    ) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.driver == driver
                && row.load.way == way
                && row.load.addresses == addresses
                && row.load.flows == 1
                && row.load.len == len
                && row.sa_delay_ns == sa_delay_ns
        })
    }

    /// What was counted of one kind of packet.
    pub fn own(&self, driver: &str, what: &str) -> Option<&Own> {
        self.own.iter().find(|own| own.driver == driver && own.what == what)
    }

    /// What was counted of the whole path of one kind of packet.
    pub fn path(&self, driver: &str, what: &str) -> Option<&WholePath> {
        self.paths.iter().find(|path| path.driver == driver && path.what == what)
    }

    /// As JSON.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    pub fn write_figures(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(file, text).with_context(|| file.display().to_string())
    }

    pub fn write(&self, directory: &Path) -> Result<()> {
        self.write_figures(&directory.join("bench.json"))?;
        super::plot::write(self, directory)
    }
}

pub const HEAD: &str = "driver  way       bytes  addresses  flows  SA us   ns/pkt      pkt/s      sent      lost  \
                        locks atomics  kmem  mblk   dma   hca    other";

/// A row as a line below [`HEAD`].
pub fn line(row: &Row) -> String {
    let way = row.load.way.name();
    let mut line = format!(
        "{:<6}  {way:<8} {:>6} {:>10} {:>6} {:>6} {:>8.1} {:>10.0} {:>9} {:>9}  ",
        row.driver,
        row.load.len,
        row.load.addresses,
        row.load.flows,
        row.sa_delay_ns / 1000,
        row.ns_per_packet,
        row.packets_per_second,
        row.sent,
        row.lost,
    );
    let calls = &row.calls;
    let figures = [calls.locks, calls.atomics, calls.memory, calls.messages, calls.mappings, calls.adapter];
    let figures: String = figures.iter().map(|figure| format!("{figure:>6.2}")).collect();
    line += &format!("{figures}{:>9.2}", calls.other);
    line
}

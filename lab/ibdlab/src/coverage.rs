//! Which source lines of the modules were run: the block counters of objects built with `kmod build --coverage`, and the
//! line tables that lie beside those objects.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// What a driver's lines are: those of its own crate, of the protocol, and of the plugin.
const OF_THE_DRIVER: [&str; 3] = ["rust/ibd/", "rust/ipoib/", "rust/mac_ib/"];

/// For each module, whether each of its blocks was run. As text: hexadecimal digits, four blocks each, the first in the
/// lowest bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Blocks(pub BTreeMap<String, Vec<bool>>);

impl Blocks {
    /// From a machine's counters.
    pub fn of_counters(counters: BTreeMap<String, Vec<u8>>) -> Self {
        let ran = |counts: Vec<u8>| counts.into_iter().map(|count| count > 0).collect();
        Self(counters.into_iter().map(|(module, counts)| (module, ran(counts))).collect())
    }

    /// Adds what another run did; returns how many blocks are new.
    pub fn merge(&mut self, other: &Self) -> usize {
        let mut new = 0;
        for (module, blocks) in &other.0 {
            let all = self.0.entry(module.clone()).or_default();
            all.resize(all.len().max(blocks.len()), false);
            for (all, ran) in all.iter_mut().zip(blocks) {
                new += usize::from(*ran && !*all);
                *all |= ran;
            }
        }
        new
    }
}

impl From<Blocks> for BTreeMap<String, String> {
    fn from(blocks: Blocks) -> Self {
        let digit = |four: &[bool]| {
            let value = four.iter().rev().fold(0, |value, ran| value << 1 | u32::from(*ran));
            char::from_digit(value, 16).unwrap_or('0')
        };
        let text = |ran: Vec<bool>| ran.chunks(4).map(digit).collect();
        blocks.0.into_iter().map(|(module, ran)| (module, text(ran))).collect()
    }
}

impl From<BTreeMap<String, String>> for Blocks {
    /// What is no hexadecimal digit counts as four blocks that were not run.
    fn from(text: BTreeMap<String, String>) -> Self {
        let bits = |digit: char| {
            let value = digit.to_digit(16).unwrap_or(0);
            (0..4).map(move |bit| value >> bit & 1 == 1)
        };
        Self(text.into_iter().map(|(module, text)| (module, text.chars().flat_map(bits).collect())).collect())
    }
}

/// What the build says of a module: `NAME.lines.json`.
#[derive(Debug, Deserialize)]
struct LineTable {
    files: Vec<String>,
    blocks: Vec<Vec<(usize, u32)>>,
}

/// Lines by file, and whether each was reached.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    files: BTreeMap<String, BTreeMap<u32, bool>>,
    /// Where the sources are.
    root: PathBuf,
}

/// How many lines there are code for, and how many of them were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    pub reached: usize,
    pub reachable: usize,
}

impl Lines {
    /// The driver's lines that were reached, by the tables below `proto`.
    ///
    /// # Errors
    ///
    /// A table that is missing or damaged, or is of another build than the object that was run.
    pub fn reached(proto: &Path, blocks: &Blocks) -> Result<Self> {
        // `proto/coverage` lies in the workspace.
        let mut lines = Self { root: proto.join("../.."), ..Self::default() };
        for (module, ran) in &blocks.0 {
            let class = if module == "mac_ib" { "mac" } else { "drv" };
            let path = proto.join(class).join("amd64").join(format!("{module}.lines.json"));
            let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
            let table: LineTable =
                serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
            // The text form rounds up to four.
            ensure!(
                table.blocks.len().abs_diff(ran.len()) < 4,
                "{}: {} blocks, the object has {}: not of one build",
                path.display(),
                table.blocks.len(),
                ran.len()
            );
            lines.add(&table, ran);
        }
        Ok(lines)
    }

    fn add(&mut self, table: &LineTable, ran: &[bool]) {
        for (lines, ran) in table.blocks.iter().zip(ran) {
            for (file, line) in lines {
                let Some(file) = table.files.get(*file) else { continue };
                if !OF_THE_DRIVER.iter().any(|own| file.starts_with(own)) {
                    continue;
                }
                *self.files.entry(file.clone()).or_default().entry(*line).or_default() |= ran;
            }
        }
    }

    /// All of them.
    pub fn share(&self) -> Share {
        self.share_of("")
    }

    /// Those of the files whose path begins so.
    pub fn share_of(&self, prefix: &str) -> Share {
        let files = self.files.iter().filter(|(file, _)| file.starts_with(prefix));
        files.flat_map(|(_, lines)| lines.values()).fold(Share::default(), |share, reached| Share {
            reached: share.reached + usize::from(*reached),
            reachable: share.reachable + 1,
        })
    }

    /// Was a line of this file with this text in it run? No, if the sources are not there.
    pub fn ran(&self, file: &str, text: &str) -> bool {
        let Ok(source) = std::fs::read_to_string(self.root.join(file)) else { return false };
        let reached = self.files.get(file);
        let ran = |line| reached.and_then(|lines| lines.get(&line)).copied().unwrap_or(false);
        (1..).zip(source.lines()).any(|(number, line)| line.contains(text) && ran(number))
    }

    /// `rust/ibd/src/x.rs: 12 of 30; not 4, 17-20`, for each file.
    pub fn listing(&self) -> String {
        let mut text = String::new();
        for (file, lines) in &self.files {
            let share = self.share_of(file);
            // Writing to a String cannot fail.
            let _ = write!(text, "{file}: {} of {}", share.reached, share.reachable);
            let never = ranges(lines);
            if !never.is_empty() {
                let _ = write!(text, "; never {}", never.join(", "));
            }
            text.push('\n');
        }
        text
    }

    /// One line for a person.
    pub fn summary(&self) -> String {
        let parts = OF_THE_DRIVER.iter().map(|own| {
            let share = self.share_of(own);
            format!("{} {} of {}", own.trim_end_matches('/'), share.reached, share.reachable)
        });
        format!("lines reached: {}", parts.collect::<Vec<_>>().join(", "))
    }

    /// `lines.txt`, the listing, and `lines.json`, the shares by file.
    pub fn write(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let path = directory.join("lines.txt");
        std::fs::write(&path, format!("{}\n{}", self.summary(), self.listing()))
            .with_context(|| path.display().to_string())?;
        let shares: BTreeMap<&String, Share> =
            self.files.keys().map(|file| (file, self.share_of(file))).collect();
        let path = directory.join("lines.json");
        let text = serde_json::to_string_pretty(&shares).context("shares are plain data")?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())
    }
}

/// The unreached lines as ranges: a range goes on over lines that have no code.
fn ranges(lines: &BTreeMap<u32, bool>) -> Vec<String> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut open = false;
    for (line, reached) in lines {
        match (reached, open, ranges.last_mut()) {
            (false, true, Some(last)) => last.1 = *line,
            (false, ..) => ranges.push((*line, *line)),
            (true, ..) => {}
        }
        open = !reached;
    }
    let text = |(from, to): (u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    ranges.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_survive_their_text_form() {
        let ran: Vec<bool> = (0..20).map(|n| n % 3 == 0).collect();
        let blocks = Blocks(BTreeMap::from([("ibd".to_owned(), ran)]));
        let text = serde_json::to_string(&blocks).unwrap();
        assert_eq!(serde_json::from_str::<Blocks>(&text).unwrap(), blocks);
    }

    #[test]
    fn merging_counts_what_is_new() {
        let of = |ran: &[bool]| Blocks(BTreeMap::from([("ibd".to_owned(), ran.to_vec())]));
        let mut all = of(&[true, false]);
        assert_eq!(all.merge(&of(&[true, true, true])), 2);
        assert_eq!(all, of(&[true, true, true]));
    }

    #[test]
    fn a_line_is_reached_when_one_of_its_blocks_is() {
        let files = vec!["rust/ibd/src/a.rs".to_owned(), "rust/kernel/src/b.rs".to_owned()];
        let table =
            LineTable { files, blocks: vec![vec![(0, 1), (0, 2)], vec![(0, 2), (0, 4)], vec![(1, 9)]] };
        let mut lines = Lines::default();
        lines.add(&table, &[true, false, true]);
        assert_eq!(lines.share(), Share { reached: 2, reachable: 3 });
        assert_eq!(lines.listing(), "rust/ibd/src/a.rs: 2 of 3; never 4\n");
    }
}

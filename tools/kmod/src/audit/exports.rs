//! The export lists: which kernel module defines which symbol that may be imported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Per module (`unix`, `genunix`, `mac`, ...), the symbols a module of ours may import from it.
#[derive(Clone, Debug, Default)]
pub struct Exports(BTreeMap<String, BTreeSet<String>>);

impl Exports {
    /// Reads `dir/<module>.txt`: one symbol per line, `#` starts a comment line.
    ///
    /// # Errors
    ///
    /// The directory or a file cannot be read, a line is not one symbol, or a list is not sorted.
    pub fn read(dir: &Path) -> Result<Exports> {
        let mut lists = BTreeMap::new();
        for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
            let path = entry?.path();
            let Some(module) = path.file_stem().filter(|_| path.extension().is_some_and(|e| e == "txt"))
            else {
                continue;
            };
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let symbols = parse(&text).with_context(|| path.display().to_string())?;
            lists.insert(module.to_string_lossy().into_owned(), symbols);
        }
        Ok(Exports(lists))
    }

    /// Whether `module` exports `symbol`.
    pub fn has(&self, module: &str, symbol: &str) -> bool {
        self.0.get(module).is_some_and(|symbols| symbols.contains(symbol))
    }

    /// The module that exports `symbol`.
    pub fn owner(&self, symbol: &str) -> Option<&str> {
        self.0.iter().find(|(_, symbols)| symbols.contains(symbol)).map(|(module, _)| module.as_str())
    }
}

fn parse(text: &str) -> Result<BTreeSet<String>> {
    let mut symbols = BTreeSet::new();
    let mut last = "";
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        ensure!(line.split_whitespace().eq([line]), "line {number}: one symbol to a line, found {line:?}");
        ensure!(last < line, "line {number}: {line} is not sorted after {last}");
        symbols.insert(line.to_owned());
        last = line;
    }
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsorted_list_is_refused_with_its_line() {
        let error = parse("# from nowhere\nkmem_free\nkmem_alloc\n").unwrap_err().to_string();
        assert_eq!(error, "line 3: kmem_alloc is not sorted after kmem_free");
    }

    #[test]
    fn no_symbol_has_two_owners() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("exports");
        let lists = Exports::read(&dir).unwrap().0;
        let mut owners = BTreeMap::new();
        for (module, symbol) in
            lists.iter().flat_map(|(module, symbols)| symbols.iter().map(move |s| (module, s)))
        {
            if let Some(other) = owners.insert(symbol, module) {
                panic!("{symbol} is on the lists of {other} and {module}");
            }
        }
        assert!(!owners.is_empty());
    }
}

//! IPS package manifests as illumos gates write them: read, and held to what `pkg(7)` and the gates' own tools demand.

mod parse;
mod rules;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use parse::{Action, parse};

use crate::inside;

/// Everything that is wrong with the manifest `text`, each with its line.
pub fn check(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(manifest) => rules::check(&manifest),
        Err(error) => vec![error],
    }
}

/// Everything that is wrong with the manifests in `paths`, alone and with each other.
///
/// # Errors
///
/// A file cannot be read.
pub fn check_files(paths: &[PathBuf]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut packages = Vec::new();
    for path in paths {
        let bytes = inside::read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        findings.extend(check(&text).into_iter().map(|finding| format!("{}: {finding}", path.display())));
        if let Ok(manifest) = parse(&text) {
            packages.push((path.display().to_string(), manifest.actions));
        }
    }
    findings.extend(rules::together(&packages));
    Ok(findings)
}

/// The manifests of a directory; with the files they include (`.inc`).
///
/// # Errors
///
/// It cannot be read.
pub fn of_directory(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|x| x == "p5m" || x == "mf" || x == "inc") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The files that the manifests in `paths` deliver, by path for amd64, each with the manifests that do.
///
/// # Errors
///
/// A file cannot be read or is no manifest.
pub fn delivered(paths: &[PathBuf]) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in paths {
        let text = inside::read_text(path)?;
        let manifest =
            parse(&text).map_err(anyhow::Error::msg).with_context(|| path.display().to_string())?;
        for action in manifest.actions.iter().filter(|action| action.name == "file") {
            let file = action.value("path").unwrap_or_default().replace("$(ARCH64)", "amd64");
            files.entry(file).or_default().push(path.clone());
        }
    }
    Ok(files)
}

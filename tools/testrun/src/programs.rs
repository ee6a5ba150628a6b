//! Which test programs there are: cargo builds them and says where they are.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Message, Metadata, TargetKind};

/// Something to run, and what it is called.
pub struct Program {
    pub name: String,
    /// The program, or cargo.
    pub path: PathBuf,
    pub arguments: Vec<String>,
    /// Where cargo would run it.
    pub directory: PathBuf,
}

/// Builds all test programs of the workspace; the examples in the documentation count as one.
pub fn build(metadata: &Metadata) -> Result<Vec<Program>> {
    let mut command = Command::new(cargo());
    command.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo test --no-run")?;
    let told = child.stdout.take().context("cargo's standard output")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(told)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let Some(path) = artifact.executable.filter(|_| artifact.profile.test) else { continue };
        let package = metadata.packages.iter().find(|package| package.id == artifact.package_id);
        let package = package.with_context(|| format!("{}: of no package", artifact.package_id))?;
        let kind = &artifact.target.kind;
        let name = match kind.first() {
            Some(TargetKind::Test) => format!("{} {}", package.name, artifact.target.name),
            Some(TargetKind::Bin) => format!("{} (program)", package.name),
            _ => format!("{} (library)", package.name),
        };
        let directory = package.manifest_path.parent().context("a manifest is in a directory")?;
        programs.push(Program {
            name,
            path: path.into(),
            arguments: vec!["--test-threads=1".to_owned()],
            directory: directory.into(),
        });
    }
    ensure!(child.wait().context("cargo test --no-run")?.success(), "cargo test --no-run has failed");
    programs.push(Program {
        name: "examples in the documentation".to_owned(),
        path: cargo(),
        arguments: ["test", "--workspace", "--doc"].map(str::to_owned).into(),
        directory: metadata.workspace_root.clone().into(),
    });
    Ok(programs)
}

fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

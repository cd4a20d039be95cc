//! What is in the workspace: packages, kernel programs, target directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand, Package, TargetKind};

use crate::usage::Usage;

/// The package of the tests that boot images under QEMU.
pub const QEMU_TESTS: &str = "firstpoll-qemu-tests";

/// Directories, anywhere in the workspace, whose packages hold kernel programs.
const PROGRAM_DIRECTORIES: [&str; 2] = ["examples", "guests"];

/// The workspace that this xtask belongs to.
#[derive(Debug)]
pub struct Workspace {
    metadata: Metadata,
}

/// A binary that is linked into a kernel image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The package it is part of.
    pub package: String,
    /// The binary's name, by which `cargo xtask run` knows it.
    pub name: String,
}

impl Workspace {
    /// Asks cargo what there is.
    ///
    /// # Errors
    ///
    /// If cargo cannot read the manifests.
    pub fn load() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(root().join("Cargo.toml"))
            .no_deps()
            .exec()
            .context("cannot read the workspace")?;
        Ok(Self { metadata })
    }

    /// Where cargo puts what it builds.
    pub fn target_dir(&self) -> &Path {
        self.metadata.target_directory.as_std_path()
    }

    /// The kernel programs: every binary of a package below `examples/` or
    /// `guests/`.
    ///
    /// They link only for the kernel's target, so their manifests set
    /// `test = false` on the binary; a library beside it is tested on the host.
    pub fn programs(&self) -> Vec<Program> {
        let packages = self.packages().filter(|package| self.is_kernel(package));
        packages
            .flat_map(|package| {
                targets(package, &TargetKind::Bin).map(|name| Program {
                    package: package.name.to_string(),
                    name: name.to_owned(),
                })
            })
            .collect()
    }

    /// The kernel program called `name`.
    ///
    /// # Errors
    ///
    /// [`Usage`] if there is none; it names those there are.
    pub fn program(&self, name: &str) -> Result<Program> {
        let programs = self.programs();
        if let Some(program) = programs.iter().find(|program| program.name == name) {
            return Ok(program.clone());
        }
        let names: Vec<_> = programs.iter().map(|p| p.name.as_str()).collect();
        let known = match names.as_slice() {
            [] => "there are none yet".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        Err(Usage::new(format!("no program `{name}`: {known}")).into())
    }

    /// The program for `name` with this kernel command line: where that has
    /// `mode=FORM`, the program `NAME-FORM` if there is one.
    ///
    /// # Errors
    ///
    /// As [`program`](Self::program).
    pub fn program_for(&self, name: &str, command_line: &str) -> Result<Program> {
        let mut words = command_line.split_whitespace().rev();
        let form = words.find_map(|word| word.strip_prefix("mode="));
        let form = form.map(|form| format!("{name}-{form}"));
        let mut programs = self.programs().into_iter();
        match programs.find(|program| Some(&program.name) == form.as_ref()) {
            Some(program) => Ok(program),
            None => self.program(name),
        }
    }

    /// The packages that link only into kernel images.
    pub fn kernel_packages(&self) -> Vec<String> {
        self.names(|package| self.is_kernel(package))
    }

    /// The packages with a library whose tests run on the host.
    pub fn libraries(&self) -> Vec<String> {
        self.names(|package| {
            package.name.as_str() != QEMU_TESTS
                && targets(package, &TargetKind::Lib).next().is_some()
        })
    }

    /// Whether `package` has integration tests.
    pub fn has_integration_tests(&self, package: &str) -> bool {
        self.packages()
            .filter(|candidate| candidate.name.as_str() == package)
            .any(|package| targets(package, &TargetKind::Test).next().is_some())
    }

    /// Whether the workspace has `package`.
    pub fn has(&self, package: &str) -> bool {
        self.packages().any(|known| known.name.as_str() == package)
    }

    fn packages(&self) -> impl Iterator<Item = &Package> {
        self.metadata.workspace_packages().into_iter()
    }

    fn names(&self, wanted: impl Fn(&Package) -> bool) -> Vec<String> {
        let packages = self.packages().filter(|package| wanted(package));
        packages.map(|package| package.name.to_string()).collect()
    }

    fn is_kernel(&self, package: &Package) -> bool {
        let manifest = package.manifest_path.as_std_path();
        let root = self.metadata.workspace_root.as_std_path();
        is_kernel_path(manifest.strip_prefix(root).unwrap_or(manifest))
            && targets(package, &TargetKind::Bin).next().is_some()
    }
}

/// The workspace's root directory.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

fn is_kernel_path(manifest: &Path) -> bool {
    let mut directories = manifest.components();
    directories.any(|directory| {
        PROGRAM_DIRECTORIES
            .iter()
            .any(|name| directory.as_os_str() == *name)
    })
}

fn targets<'a>(package: &'a Package, kind: &'a TargetKind) -> impl Iterator<Item = &'a str> {
    let targets = package.targets.iter();
    targets
        .filter(|target| target.kind.contains(kind))
        .map(|target| target.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_below_examples_or_guests() {
        for kernel in ["examples/httpd/Cargo.toml", "tests/guests/Cargo.toml"] {
            assert!(is_kernel_path(Path::new(kernel)), "{kernel}");
        }
        for host in ["Cargo.toml", "xtask/Cargo.toml", "tests/qemu/Cargo.toml"] {
            assert!(!is_kernel_path(Path::new(host)), "{host}");
        }
    }

    #[test]
    fn the_workspace_has_its_libraries() {
        let workspace = Workspace::load().expect("the workspace is readable");
        let libraries = workspace.libraries();
        for name in ["firstpoll", "xtask"] {
            assert!(libraries.iter().any(|library| library == name), "{name}");
            assert!(workspace.has(name));
        }
    }

    #[test]
    fn a_form_may_be_a_program_of_its_own() {
        let workspace = Workspace::load().expect("the workspace is readable");
        let name = |command_line| {
            let program = workspace.program_for("httpd", command_line);
            program.expect("there is one").name
        };
        assert_eq!(name("log=info mode=routes port=8080"), "httpd-routes");
        for command_line in ["", "mode=", "mode=blocking", "mode=routes mode=async"] {
            assert_eq!(name(command_line), "httpd", "{command_line}");
        }
        assert!(workspace.program_for("no such", "mode=routes").is_err());
    }

    #[test]
    fn an_unknown_program_is_a_usage_error() {
        let workspace = Workspace::load().expect("the workspace is readable");
        let error = workspace.program("no such").expect_err("there is none");
        assert!(error.is::<Usage>());
    }
}

//! The kernel modules of a Debian kernel, and what each needs.
//!
//! The package has no `modules.dep`: that is made when it is installed, from the
//! same source as here, the section `.modinfo` of each module.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lzma_rust2::XzReader;
use object::{Object, ObjectSection};

use crate::usage::Usage;

/// A module, ready to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// The ELF file, not compressed.
    pub content: Vec<u8>,
}

/// The modules of one kernel.
#[derive(Debug)]
pub struct Modules {
    files: HashMap<String, PathBuf>,
    built_in: Vec<String>,
}

impl Modules {
    /// Finds the modules below `directory`, which is `/lib/modules/VERSION`.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn find(directory: &Path) -> Result<Self> {
        let list = directory.join("modules.builtin");
        let list = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
        let built_in = list.lines().filter_map(|line| module_name(Path::new(line)));
        let mut files = HashMap::new();
        collect(&directory.join("kernel"), &mut files)?;
        Ok(Self {
            files,
            built_in: built_in.collect(),
        })
    }

    /// The modules called `wanted` and all that they need, each behind those
    /// that it needs; those that are part of the kernel are left out.
    ///
    /// # Errors
    ///
    /// [`Usage`] if one does not exist; otherwise if one cannot be read.
    pub fn resolve(&self, wanted: &[&str]) -> Result<Vec<Module>> {
        let mut resolved = Vec::new();
        for name in wanted {
            self.add(name, &mut resolved)?;
        }
        Ok(resolved)
    }

    /// The kernel's build refuses circles, so this comes to an end.
    fn add(&self, name: &str, resolved: &mut Vec<Module>) -> Result<()> {
        let is_known = resolved.iter().any(|module| module.name == name);
        if is_known || self.built_in.iter().any(|built_in| built_in == name) {
            return Ok(());
        }
        let Some(file) = self.files.get(name) else {
            return Err(Usage::new(format!("the kernel has no module {name}")).into());
        };
        let content = read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let needed = depends(&content)
            .with_context(|| format!("{} does not say what it needs", file.display()))?;
        for name in needed {
            self.add(&name, resolved)?;
        }
        resolved.push(Module {
            name: name.to_owned(),
            content,
        });
        Ok(())
    }
}

fn collect(directory: &Path, files: &mut HashMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, files)?;
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// `virtio_rng` for `kernel/drivers/char/hw_random/virtio-rng.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, _) = file.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(file)?;
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => Ok(bytes),
        Some("xz") => {
            let mut content = Vec::new();
            XzReader::new(&bytes[..], true).read_to_end(&mut content)?;
            Ok(content)
        }
        _ => anyhow::bail!("it is neither plain nor compressed with xz"),
    }
}

/// The names behind `depends=` in the section `.modinfo`.
fn depends(module: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let section = file.section_by_name(".modinfo");
    let section = section.context("there is no section .modinfo")?;
    let mut fields = section.data()?.split(|&byte| byte == 0);
    let names = fields
        .find_map(|field| field.strip_prefix(b"depends="))
        .context("there is no field depends=")?;
    let names = str::from_utf8(names)?.split(',');
    let names = names.filter(|name| !name.is_empty());
    Ok(names.map(|name| name.replace('-', "_")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lzma_rust2::{XzOptions, XzWriter};
    use object::write;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};
    use std::io::Write;

    /// A directory of modules that goes when this is dropped.
    struct Directory(PathBuf);

    impl Directory {
        fn new(test: &str) -> Self {
            let name = format!("firstpoll-modules-{test}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(path.join("kernel/drivers")).expect("it can be made");
            let built_in = "kernel/drivers/char/hw_random/rng-core.ko\n";
            fs::write(path.join("modules.builtin"), built_in).expect("it can be made");
            Self(path)
        }

        fn put(&self, file: &str, content: &[u8]) {
            fs::write(self.0.join("kernel/drivers").join(file), content).expect("it can be made");
        }

        fn names(&self, wanted: &[&str]) -> Result<Vec<String>> {
            let modules = Modules::find(&self.0)?.resolve(wanted)?;
            Ok(modules.into_iter().map(|module| module.name).collect())
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn module(depends: &str) -> Vec<u8> {
        let mut file =
            write::Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = file.add_section(Vec::new(), b".modinfo".to_vec(), SectionKind::ReadOnlyData);
        let info = format!("license=GPL\0depends={depends}\0retpoline=Y\0");
        file.append_section_data(section, info.as_bytes(), 1);
        file.write().expect("it is well-formed")
    }

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut writer = XzWriter::new(Vec::new(), XzOptions::default()).expect("valid options");
        writer.write_all(content).expect("it fits");
        writer.finish().expect("it fits")
    }

    #[test]
    fn each_module_follows_those_that_it_needs() -> Result<()> {
        let directory = Directory::new("order");
        directory.put("virtio_net.ko", &module("virtio,net-failover,rng_core"));
        directory.put("net_failover.ko", &module("failover"));
        directory.put("failover.ko", &module(""));
        directory.put("virtio.ko", &module(""));
        directory.put("virtio-rng.ko", &module("virtio"));
        assert_eq!(
            directory.names(&["virtio_net", "virtio_rng"])?,
            [
                "virtio",
                "failover",
                "net_failover",
                "virtio_net",
                "virtio_rng"
            ]
        );
        assert_eq!(directory.names(&["rng_core"])?, Vec::<String>::new());
        Ok(())
    }

    #[test]
    fn compressed_modules_are_unpacked() -> Result<()> {
        let directory = Directory::new("xz");
        let plain = module("failover");
        directory.put("virtio_net.ko.xz", &compressed(&plain));
        directory.put("failover.ko.xz", &compressed(&module("")));
        let modules = Modules::find(&directory.0)?.resolve(&["virtio_net"])?;
        assert_eq!(modules.len(), 2);
        assert_eq!(modules[1].content, plain);
        Ok(())
    }

    #[test]
    fn what_is_missing_or_broken_is_named() {
        let directory = Directory::new("missing");
        directory.put("a.ko", &module("b"));
        directory.put("c.ko", b"not an ELF file");
        directory.put("d.ko.zst", &module(""));
        for (wanted, named) in [
            ("a", "no module b"),
            ("c", "c.ko does not say"),
            ("d", "neither plain nor"),
        ] {
            let error = directory.names(&[wanted]).expect_err(wanted);
            assert!(format!("{error:#}").contains(named), "{error:#}");
        }
    }
}

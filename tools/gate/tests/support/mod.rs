//! A small gate of our own making: the files and lines that an installation asks for, in a git repository.
#![allow(dead_code)] // Each test binary uses its part.

pub mod machine;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gate::gate::Gate;

/// At which of the places of an interruption a test interrupts: one after as many, or at each if `WHOLE` is set, as `make nightly` does.
/// It has no divisor in common with the number of ways to cut a run short, so each way has its turn.
pub fn each_so_many() -> usize {
    if std::env::var_os("WHOLE").is_some() { 1 } else { 23 }
}

/// The root of our own tree.
pub fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

const MANUAL_7D: &str = "include $(SRC)/Makefile.master\nMANSECT= 7d\n_MANFILES=\tibd.7d\t\\\n\t\tlofi.7d\n\n\
     i386_MANFILES=\tahci.7d\n\nMANFILES =\t$(_MANFILES) $($(MACH)_MANFILES)\nMANLINKS =\n";
const MANUAL_1M: &str = "include $(SRC)/Makefile.master\nMANSECT= 1m\n_MANFILES=\tdladm.1m\n\n\
     i386_MANFILES=\tacpidump.1m\n\nMANFILES=\t$(_MANFILES) $($(MACH)_MANFILES)\n";
const MANUAL_4: &str = "include $(SRC)/Makefile.master\nMANSECT= 4\n_MANFILES=\tdriver.conf.4\n\n\
     i386_MANFILES=\tloader.conf.4\n\nMANFILES=\t$(_MANFILES) $($(MACH)_MANFILES)\n";

const FILES: &[(&str, &str)] = &[
    (
        "usr/src/Makefile.master",
        "ROOT = /elsewhere\nRELEASE_BUILD= $(POUND_SIGN)\n$(RELEASE_BUILD)NOT_RELEASE_BUILD= yes\n",
    ),
    (
        "usr/src/uts/Makefile.uts",
        "include $(SRC)/Makefile.master\n\
         CLASS_OBJ64 = 64\nCLASS = $(CLASS_$(BUILD_TYPE))\nOBJS_DIR_OBJ64 = obj64\nOBJS_DIR = $(OBJS_DIR_$(BUILD_TYPE))\n\
         SUBDIR64_i386 = amd64\nSUBDIR64 = $(SUBDIR64_$(MACH))\nBINARY = $(OBJS_DIR)/$(MODULE)\n\
         CLEANFILES = $(OBJECTS)\nCONFFILE = $(MODULE).conf\nSRC_CONFFILE = $(CONF_SRCDIR)/$(CONFFILE)\n\
         ROOT_CONFFILE_64 = $(ROOTMODULE:%/$(SUBDIR64)/$(MODULE)=%/$(MODULE)).conf\n\
         ROOT_CONFFILE = $(ROOT_CONFFILE_$(CLASS))\n\
         ROOT_DRV_DIR_64 = $(ROOT)/kernel/drv/$(SUBDIR64)\nROOT_DRV_DIR = $(ROOT_DRV_DIR_$(CLASS))\n\
         ROOT_MAC_DIR_64 = $(ROOT)/kernel/mac/$(SUBDIR64)\nROOT_MAC_DIR = $(ROOT_MAC_DIR_$(CLASS))\n\
         $(BINARY) := LDFLAGS += -znothing\n",
    ),
    ("usr/src/uts/Makefile.targ", "$(BINARY):\t$(OBJECTS)\n\t$(LD) -r $(LDFLAGS) -o $@ $(OBJECTS)\nFRC:\n"),
    (
        "usr/src/uts/common/Makefile.files",
        "MAC_IB_OBJS += mac_ib.o\n\nIBD_OBJS +=\tibd.o \\\n\t\tibd_cm.o\n\nNEXT_OBJS += next.o\n",
    ),
    (
        "usr/src/uts/common/Makefile.rules",
        "$(OBJS_DIR)/%.o:\t\t$(UTSBASE)/common/io/ib/clients/ibd/%.c\n\t$(COMPILE.c) -o $@ $<\n\n\
         $(OBJS_DIR)/%.o:   $(UTSBASE)/common/io/mac/plugins/%.c\n\t$(COMPILE.c) -o $@ $<\n",
    ),
    (
        "usr/src/uts/intel/Makefile.intel",
        "include $(UTSBASE)/common/Makefile.files\ninclude $(UTSBASE)/Makefile.uts\n\
         DRV_KMODS += dld\nDRV_KMODS\t+=  ib  ibp hermon # fabric\nMISC_KMODS += mac dls ibtl ibcm\nMAC_KMODS += mac_ib\n",
    ),
    (
        "usr/src/uts/intel/Makefile.targ",
        "include $(UTSBASE)/Makefile.targ\ninclude $(UTSBASE)/common/Makefile.rules\n",
    ),
    ("usr/src/uts/intel/ibp/Makefile", "MODULE = ibp\nOBJECTS = $(IBD_OBJS)\n"),
    ("usr/src/uts/intel/mac_ib/Makefile", "MODULE = mac_ib\nOBJECTS = $(MAC_IB_OBJS)\n"),
    (
        "usr/src/cmd/Makefile",
        "include ../Makefile.master\nCOMMON_SUBDIRS=\t\t\\\n\tibd_upgrade\t\\\n\tid\n\ni386_SUBDIRS=\t\t\\\n\tacpihpd\n\n\
         MSGSUBDIRS=\t\t\\\n\tabi\n\nsparc_MSGSUBDIRS=\tfruadm\n",
    ),
    ("usr/src/uts/common/io/ib/clients/ibd/ibd.c", "/* the C driver */\n"),
    ("usr/src/uts/common/io/ib/clients/ibd/ibp.conf", "# the C driver's\n"),
    ("usr/src/uts/common/io/mac/plugins/mac_ib.c", "/* the C plugin */\n"),
    ("usr/src/uts/common/sys/mac_ib.h", "/* the gate's own */\n"),
    (
        "usr/src/pkg/manifests/driver-network-ibp.mf",
        "file path=kernel/drv/$(ARCH64)/ibp group=sys\nfile path=kernel/drv/ibp.conf group=sys \\\n    preserve=renameold\n\
         file path=usr/share/man/man7d/ibd.7d\n",
    ),
    ("usr/src/man/man7d/Makefile", MANUAL_7D),
    ("usr/src/man/man7d/ibd.7d", ".\\\" the gate's own\n"),
    ("usr/src/man/man1m/Makefile", MANUAL_1M),
    ("usr/src/man/man4/Makefile", MANUAL_4),
    (
        "usr/src/pkg/manifests/system-kernel.man7d.inc",
        "file path=usr/share/man/man7d/llc1.7d\nfile path=usr/share/man/man7d/lofi.7d\n\
         file path=usr/share/man/man7d/log.7d\n",
    ),
    ("usr/src/pkg/manifests/system-kernel.mf", "file path=kernel/mac/$(ARCH64)/mac_ib group=sys\n"),
];

/// A gate in a directory of its own, with everything committed.
pub struct Small {
    dir: tempfile::TempDir,
}

impl Small {
    pub fn new() -> Small {
        let small = Small { dir: tempfile::tempdir().unwrap() };
        for (path, text) in FILES {
            small.write(path, text);
        }
        git(small.root(), &["init", "-q"]);
        small.commit();
        small
    }

    /// One whose manual has the sections of today.
    pub fn of_today() -> Small {
        let small = Small::new();
        let today = |text: &str| {
            [
                ("man4/", "man5/"),
                ("man7d", "man4d"),
                ("man1m", "man8"),
                (".7d", ".4d"),
                (".1m", ".8"),
                ("7d", "4d"),
                ("1m", "8"),
            ]
            .into_iter()
            .fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
        };
        for (path, text) in FILES {
            if today(path) != *path || today(text) != *text {
                fs::remove_file(small.root().join(path)).unwrap();
                small.write(&today(path), &today(text));
            }
        }
        for old in ["usr/src/man/man7d", "usr/src/man/man1m", "usr/src/man/man4"] {
            fs::remove_dir_all(small.root().join(old)).unwrap();
        }
        small.commit();
        small
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn gate(&self) -> Gate {
        Gate::open(self.root()).unwrap()
    }

    pub fn write(&self, path: &str, text: &str) {
        write(self.root(), path, text);
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    pub fn commit(&self) {
        git(self.root(), &["add", "-A"]);
        let who = ["-c", "user.name=builder", "-c", "user.email=builder@example.org"];
        git(self.root(), &[&who[..], &["commit", "-q", "-m", "a state"]].concat());
    }

    /// Every file with its content, but for git's own.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        files(self.root())
    }
}

/// Every path below `root` with its content (a directory has none), but for `.git`.
pub fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".git") {
                continue;
            }
            let content = if path.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            found.insert(path.strip_prefix(root).unwrap().to_path_buf(), content);
            if path.is_dir() {
                dirs.push(path);
            }
        }
    }
    found
}

/// The same files with the same content; if not, says which differ.
#[track_caller]
pub fn assert_same(now: &BTreeMap<PathBuf, Vec<u8>>, before: &BTreeMap<PathBuf, Vec<u8>>, when: &str) {
    let paths = now.keys().chain(before.keys());
    let differ: Vec<_> = paths.filter(|path| now.get(*path) != before.get(*path)).collect();
    assert!(differ.is_empty(), "{when}: {differ:?} changed");
}

pub fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

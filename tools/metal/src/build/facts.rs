//! What a gate's makefiles do not say: what to build of it, and where a kernel lies in memory.

/// The modules to build, as directories below `usr/src/uts`; what they need follows from their makefiles.
pub const MODULES: &[&str] = &[
    // What the kernel looks for before init runs: machine, console, ...
    "intel/genunix",
    "i86pc/uppc",
    "i86pc/rootnex",
    "i86pc/isa",
    "i86pc/pci",
    "i86pc/consconfig_dacf",
    "i86pc/generic_cpu",
    "intel/acpica",
    "intel/busra",
    "intel/pci_autoconfig",
    "intel/pcihp",
    "intel/hpcsvc",
    "intel/asy",
    "intel/bootdev",
    "intel/strplumb",
    "intel/consconfig",
    "intel/conskbd",
    "intel/consms",
    "intel/cn",
    "intel/wc",
    "intel/iwscn",
    "intel/tem",
    "intel/ldterm",
    "intel/ttcompat",
    "intel/redirmod",
    // ... file systems and what programs are, ...
    "intel/specfs",
    "intel/devfs",
    "intel/dev",
    "intel/procfs",
    "intel/hsfs",
    "intel/ufs",
    "intel/fssnap_if",
    "intel/tmpfs",
    "intel/mntfs",
    "intel/ctfs",
    "intel/objfs",
    "intel/fifofs",
    "intel/namefs",
    "intel/sockfs",
    "intel/doorfs",
    "intel/lofs",
    "intel/sharefs",
    "intel/elfexec",
    "intel/intpexec",
    // ... scheduling classes, ...
    "intel/TS",
    "intel/TS_DPTBL",
    "intel/FX",
    "intel/FX_DPTBL",
    "intel/RT",
    "intel/RT_DPTBL",
    "intel/SDC",
    "intel/IA",
    "intel/FSS",
    // ... devices without hardware, ...
    "intel/pseudo",
    "intel/clone",
    "intel/sysmsg",
    "intel/sy",
    "intel/log",
    "intel/mm",
    "intel/options",
    "intel/sad",
    "intel/devinfo",
    "intel/ramdisk",
    "intel/nulldriver",
    // ... and cryptography, which IP and random numbers stand on.
    "intel/kcf",
    "intel/swrand",
    "intel/random",
    "intel/md5",
    "intel/sha1",
    "intel/sha2",
    // A system call that is a module: without it pipe(2) is SIGSYS.
    "intel/pipe",
    "intel/kstat",
    // More than one processor.
    "i86pc/pcplusmp",
    "i86pc/apix",
    // Suspend and resume, which uadmin(2) loads.
    "i86pc/cpr",
    // The network. fs/dev takes misc/dls and misc/mac, whether there is a link or not.
    "intel/mac",
    "intel/dls",
    "intel/dld",
    "intel/mac_ether",
    "intel/mac_ib",
    // What the IB nexus takes for plumbing as soon as a node of its own is attached.
    "intel/softmac",
    "intel/net_dacf",
    "intel/neti",
    "intel/hook",
    "intel/ip",
    "intel/ip6",
    "intel/tcp",
    "intel/tcp6",
    "intel/udp",
    "intel/udp6",
    "intel/icmp",
    "intel/icmp6",
    "intel/arp",
    "intel/rts",
    "intel/keysock",
    "intel/ipsecah",
    "intel/ipsecesp",
    "intel/spdsock",
    "intel/bpf",
    "intel/dlpistub",
    // InfiniBand.
    "intel/ibtl",
    "intel/ibcm",
    "intel/ibmf",
    "intel/ibdm",
    "intel/ib",
    "intel/eibnx",
    // Device management of every port: another client of an adapter than IP.
    "intel/ibdma",
    "intel/eoib",
    "intel/ibp",
];

/// The gate's C sources for what ours take the place of.
pub const THEIRS: &[&str] = &["intel/mac_ib", "intel/ibp"];

/// Where modules may be needed that no `-N` names: consconfig_dacf loads usbser by itself.
pub const UNNAMED: &[(&str, &str)] = &[("i86pc/consconfig_dacf", "intel/usbser")];

/// The object that has to begin unix's text: the kernel knows its first page by it.
pub const FIRST_OBJECT: &str = "locore";
/// Objects of unix that are programs of their own, linked at a fixed address and carried as bytes: name, symbol.
pub const BLOBS: &[(&str, &str)] = &[("bios_call", "bios"), ("fb_swtch", "fb_swtch")];
/// The object of unix that is a library with an interface of its own, and the file that lists it, below `usr/src/uts`.
pub const LIBRARY: (&str, &str) = ("zlib_obj", "common/zmod/mapfile");

/// Where dboot runs, identity mapped: the gate's `Mapfile.dboot` and multiboot header say the same.
pub const DBOOT_ADDRESS: u64 = 0xC0_0000;
/// What unix's physical addresses are raised by while GNU ld sorts segments, and lowered by afterwards.
pub const PADDR_RAISE: u64 = 0x1000_0000;

/// The kernel file, from the root. krtld keeps what follows the first "/platform/" of the boot loader's command line, and QEMU
/// begins that line with the path of `-kernel`, so the file lies in such a directory on the host, too.
pub const UNIX: &str = "platform/i86pc/kernel/amd64/unix";

/// Directories that file systems are mounted on or that programs expect.
pub const DIRECTORIES: &[&str] = &[
    "dev",
    "devices",
    "proc",
    "tmp",
    "var",
    "mnt",
    "sbin",
    "system/contract",
    "system/object",
    "etc/devices",
    "etc/dfs",
    "etc/security",
    "etc/svc/volatile",
    "boot/solaris/devicedb",
];

/// Files of the gate that lie in the root as they are: from `usr/src`, and in the root.
pub const FILES: &[(&str, &str)] = &[
    ("uts/intel/os/name_to_sysnum", "etc/name_to_sysnum"),
    ("uts/intel/os/dacf.conf", "etc/dacf.conf"),
    ("uts/intel/os/path_to_inst", "etc/path_to_inst"),
    ("uts/intel/os/device_policy", "etc/security/device_policy"),
    ("uts/intel/os/bootenv.rc", "boot/solaris/bootenv.rc"),
];

/// Such files that gates need not have; one that has it needs it.
pub const FILES_OF_SOME: &[(&str, &str)] = &[
    // acpica looks up every PNP name in it, and dereferences a null pointer if the file is missing. Later ones look up nothing.
    ("uts/intel/os/master", "boot/solaris/devicedb/master"),
];

/// Files that are there and empty. A machine with more than one processor has `pcplusmp` in etc/mach.
pub const EMPTY: &[&str] = &["etc/mach", "etc/system", "etc/mnttab", "etc/dfs/sharetab"];

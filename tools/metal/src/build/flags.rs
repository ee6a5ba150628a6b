//! Compiler flags: those that make gcc's code a kernel's, and those of a gate's recipe, said for gcc.

use std::path::Path;

use super::place::plain;

/// gcc calls its target Linux; the gate's sources ask.
pub const NOT_LINUX: &[&str] =
    &["-U__linux__", "-U__linux", "-Ulinux", "-U__gnu_linux__", "-U__unix__", "-U__unix", "-Uunix"];

/// For kernel code in C.
///
/// - `-mcmodel=kernel -fno-pic`: only the relocations that krtld knows.
/// - no red zone, SSE, x87: interrupts use the current stack, and the kernel does not save that state.
/// - no sibling calls: a probe is a call of a function that is nowhere, which krtld makes a nop; a *jump* to one would run on
///   into whatever function comes next. (The sign of it is a crash in `cyclic_fire`.)
/// - nothing that moves, clones, merges or folds functions: stacks and probes tell functions by their names, and assembly
///   counts on the order of what a file has.
/// - `-fwrapv`, no assumptions about aliasing, null pointers or loops: the sources are older than those.
/// - `-fcommon`: headers define variables.
/// - no stack protector: gcc's guard under this code model is `%gs:40`, a field of something else in `cpu_t`.
/// - `-w`: the gate's warnings are for the gate's compiler.
pub const KERNEL: &[&str] = &[
    "-m64",
    "-mcmodel=kernel",
    "-ffreestanding",
    "-nostdinc",
    "-fno-pic",
    "-fno-pie",
    "-mno-red-zone",
    "-mno-mmx",
    "-mno-sse",
    "-mno-sse2",
    "-msoft-float",
    "-std=gnu99",
    "-O2",
    "-g0",
    "-fno-optimize-sibling-calls",
    "-fno-omit-frame-pointer",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-inline-functions",
    "-fno-inline-small-functions",
    "-fno-inline-functions-called-once",
    "-fno-partial-inlining",
    "-fno-ipa-cp",
    "-fno-ipa-sra",
    "-fno-ipa-icf",
    "-fno-ipa-ra",
    "-fno-reorder-functions",
    "-fno-reorder-blocks-and-partition",
    "-fno-toplevel-reorder",
    "-falign-functions=16",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-delete-null-pointer-checks",
    "-fno-aggressive-loop-optimizations",
    "-fno-tree-loop-distribute-patterns",
    "-fcommon",
    "-w",
];

/// For dboot, which is 32-bit code and copied to where it runs.
pub const DBOOT: &[&str] = &[
    "-m32",
    "-march=i686",
    "-ffreestanding",
    "-nostdinc",
    "-fno-pic",
    "-fno-pie",
    "-mno-red-zone",
    "-mno-mmx",
    "-mno-sse",
    "-std=gnu99",
    "-O1",
    "-fno-strict-aliasing",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-fno-tree-loop-distribute-patterns",
    "-fcommon",
    "-w",
    "-Dsun",
    "-D__sun",
    "-D__SVR4",
];

/// What counts of a recipe's words for gcc; paths are relative to `dir`.
///
/// The recipes call `cw`, which translates Studio's options: `-_gcc=X` is X for gcc alone. `-Y I,DIR` is where Studio's
/// preprocessor looks last, so it goes behind all others, wherever it stands.
pub fn translated(words: &[String], dir: &Path) -> Vec<String> {
    let (mut flags, mut last) = (Vec::new(), Vec::new());
    let include = |path: &str| format!("-I{}", plain(&dir.join(path)).display());
    for word in words {
        let word = word.strip_prefix("-_gcc=").filter(|flag| flag.starts_with("-f")).unwrap_or(word);
        if let Some(path) = word.strip_prefix("I,") {
            last.push(include(path));
        } else if let Some(path) = word.strip_prefix("-I") {
            flags.push(include(path));
        } else if word.starts_with("-D") || word.starts_with("-U") || word.starts_with("-f") {
            flags.push(word.to_string());
        }
    }
    flags.retain(|flag| !is_other(flag));
    flags.extend(last);
    flags
}

/// What is left out of a recipe: every stack protector (see [`KERNEL`]), an option that only illumos's own gcc has, for which KERNEL
/// names the passes of gcc that clone, and all that loads a plugin into gcc or names a file for it to write.
fn is_other(flag: &str) -> bool {
    const FILES: [&str; 7] =
        ["-fplugin", "-fdump", "-fopt-info", "-fsave", "-fprofile", "-fcallgraph-info", "-fdiagnostics"];
    let files =
        flag.starts_with("-f") && (flag.contains('/') || FILES.iter().any(|name| flag.starts_with(name)));
    files || flag.starts_with("-fstack-protector") || flag == "-fno-clone-functions"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_protector_and_what_gnus_gcc_does_not_know_are_left_out() {
        let words = ["-_gcc=-fstack-protector-strong", "-_gcc=-fno-clone-functions", "-_gcc=-fno-ipa-icf"];
        assert_eq!(translated(&words.map(String::from), Path::new("/")), ["-fno-ipa-icf"]);
    }

    /// Before, a makefile of the gate had gcc load any object, and write any file.
    #[test]
    fn plugins_and_files_to_write_are_left_out() {
        let words =
            ["-fplugin=/x.so", "-fplugin-arg-x", "-_gcc=-fplugin=x", "-fdump-tree-all=x", "-fopt-info=/x"];
        let words =
            [&words[..], &["-fprofile-dir=x", "-fauxbase=/x", "-fno-builtin", "-o", "/x", "-B/x", "@x"]];
        let words: Vec<String> = words.concat().into_iter().map(String::from).collect();
        assert_eq!(translated(&words, Path::new("/")), ["-fno-builtin"]);
    }

    #[test]
    fn a_recipe_is_said_for_gcc() {
        let words = "/opt/cw -_gcc -m64 -xO3 -Y I,/s/uts/common -_gcc=-fno-ipa-cp -_gcc=-Wno-unused -_gcc=-fstack-protector \
                     -D_KERNEL -UX -I../../sys -I/s/uts/intel inline.il -c -o x.o";
        let words: Vec<String> = words.split_whitespace().map(String::from).collect();
        let flags = translated(&words, Path::new("/s/uts/intel/ip"));
        assert_eq!(
            flags,
            ["-fno-ipa-cp", "-D_KERNEL", "-UX", "-I/s/uts/sys", "-I/s/uts/intel", "-I/s/uts/common"]
        );
    }
}

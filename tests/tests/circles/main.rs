//! No circle of files leads through several modules of a crate: what is below can be read, tested and changed without what is above.
//!
//! Rust itself sees to that between crates. Inside one, a file may use any other; here every path, import and method of every file is
//! read ([`source`]), and a circle is named with the files on it ([`graph`]). Files of one module may use each other in circles: they
//! are to be read together.

#![forbid(unsafe_code)]

mod graph;
mod source;

use std::path::Path;

use graph::Graph;

/// The module a file is in: the first directory below `src`, or the file itself if there is none.
fn first_directory(file: &str) -> String {
    file.split('/').next().unwrap_or(file).to_owned()
}

fn assert_no_circle(name: &str, src: &str) {
    let graph = Graph::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(src)).expect(src);
    let circles: Vec<String> =
        graph.circles(first_directory).iter().map(|files| files.join(" -> ")).collect();
    assert!(circles.is_empty(), "files of {name} use each other in a circle:\n{}", circles.join("\n"));
}

#[test]
fn no_circle_of_files_leads_through_the_floors_of_fakekernel() {
    assert_no_circle("fakekernel", "lab/fakekernel/src");
}

#[test]
fn no_circle_of_files_leads_through_the_modules_of_lab_gldv3() {
    assert_no_circle("lab-gldv3", "lab/gldv3/src");
}

fn circles(texts: &[(&str, &str)]) -> Vec<String> {
    let graph = Graph::of_texts(texts).expect("Rust");
    graph.circles(first_directory).iter().map(|files| files.join(" -> ")).collect()
}

const ROOT: (&str, &str) = ("lib.rs", "mod above; mod below; pub use above::Upper;");

#[test]
fn a_circle_over_an_import_and_a_path_in_a_macro_is_named() {
    let texts = [
        ROOT,
        ("above.rs", "use crate::below::Lower; pub struct Upper(Lower);"),
        ("below.rs", "pub struct Lower; fn f() { println!(\"{}\", crate::above::Upper::new()); }"),
    ];
    assert_eq!(circles(&texts), ["above.rs -> below.rs -> above.rs"]);
}

#[test]
fn a_name_that_the_root_makes_known_leads_to_the_file_that_defines_it() {
    let texts = [
        ROOT,
        ("above.rs", "use super::below::{self, Lower}; pub struct Upper(Lower);"),
        ("below.rs", "use crate::Upper as Other; pub struct Lower;"),
    ];
    assert_eq!(circles(&texts), ["above.rs -> below.rs -> above.rs"]);
}

#[test]
fn a_name_of_another_crate_and_a_macro_at_the_root_are_no_way_to_the_root() {
    let root = "mod part; pub use other::Thing; pub fn f() { part::g() }";
    let part = "use crate::{Thing, make}; #[macro_export] macro_rules! make { () => { $crate::Thing } } pub fn g() { make!() }";
    assert!(circles(&[("lib.rs", root), ("part.rs", part)]).is_empty());
}

#[test]
fn a_method_that_the_module_above_adds_is_a_way_up() {
    let above = "use crate::below::Lower; impl Lower { pub fn raise(&self) {} }";
    let texts = [ROOT, ("above.rs", above), ("below.rs", "pub struct Lower; fn f(l: &Lower) { l.raise(); }")];
    assert_eq!(circles(&texts), ["above.rs -> below.rs -> above.rs"]);
    // Unless the module below has one of that name itself: whose is meant nobody can tell from the name.
    let below = "pub struct Lower; struct Own; impl Own { fn raise(&self) {} } fn f(o: &Own) { o.raise(); }";
    assert!(circles(&[ROOT, ("above.rs", above), ("below.rs", below)]).is_empty());
}

#[test]
fn a_circle_inside_one_module_and_a_way_down_are_none() {
    let texts = [
        ("lib.rs", "mod above; mod below;"),
        ("above/mod.rs", "mod part; pub struct Whole(part::Part); use crate::below::Lower;"),
        ("above/part.rs", "use super::Whole; pub struct Part; fn f() -> crate::below::Lower { todo!() }"),
        ("below.rs", "pub struct Lower; mod tests { use super::Lower; }"),
    ];
    assert!(circles(&texts).is_empty());
}

#[test]
fn a_circle_over_three_modules_is_found_and_comments_make_none() {
    let texts = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b; fn f() { b::g() }"),
        ("b.rs", "/// See [`crate::a::f`].\npub fn g() { crate::c::h::<u8>() }"),
        ("c.rs", "pub fn h<T>() {} // crate::a::f()\n"),
    ];
    assert!(circles(&texts).is_empty());
    let closed =
        [texts[0], texts[1], texts[2], ("c.rs", "pub fn h<T>() -> impl Fn() { move || super::a::f() }")];
    assert_eq!(circles(&closed), ["a.rs -> b.rs -> c.rs -> a.rs"]);
}

/// The sizes of the largest knots of files that use one another, a folder's `mod.rs` and its own files counted as any other. A number only
/// becomes smaller.
const KNOTS: [(&str, usize); 25] = [
    ("rust/gldv3", 9),
    ("rust/ibd", 73),
    ("rust/ibtf", 22),
    ("rust/ibtf-provider", 8),
    ("rust/ipoib", 9),
    ("rust/kernel", 5),
    ("rust/mac_ib", 1),
    ("rust/swhca", 20),
    ("lab/admin", 13),
    ("lab/fabric", 28),
    ("lab/fakekernel", 24),
    ("lab/gldv3", 13),
    ("lab/ibdlab", 92),
    ("lab/ibtf", 73),
    ("lab/ip", 7),
    ("lab/lock", 1),
    ("lab/native", 6),
    ("lab/opensm", 2),
    ("lab/sim", 12),
    ("lab/sm", 25),
    ("lab/umad", 1),
    ("lab/world", 4),
    ("tools/gate", 3),
    ("tools/kmod", 7),
    ("tools/metal", 16),
];

#[test]
fn files_that_use_one_another_do_not_become_more() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let largest = |name: &str| {
        let graph = Graph::of(&root.join(name).join("src")).expect("Rust");
        graph.knots().first().map_or(1, |knot| knot.len())
    };
    let wrong: Vec<String> = KNOTS
        .iter()
        .map(|(name, known)| (name, known, largest(name)))
        .filter(|(_, known, now)| *known != now)
        .map(|(name, known, now)| format!("{name}: {now} files, {known} in the list"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_knot_has_every_file_that_leads_back_to_itself() {
    let texts = [
        ("lib.rs", "mod above; mod below; mod apart;"),
        ("above.rs", "use crate::below::Lower; pub struct Upper(Lower);"),
        ("below.rs", "pub struct Lower; fn f() { crate::above::g() }"),
        ("apart.rs", "use crate::above::Upper;"),
    ];
    let knots = Graph::of_texts(&texts).expect("Rust").knots();
    assert_eq!(knots, [["above.rs", "below.rs"].map(str::to_owned).into()]);
}

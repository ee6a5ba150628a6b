//! The crate against the ABI tables: every record, constant and prototype it declares, in Rust and in C.
//!
//! The tables say what an illumos gate's own headers say to a C compiler (`abi/README.md`). A comparison that cannot
//! fail proves nothing, so each kind of difference is planted once and has to be found.

mod compare;
mod ctype;
mod headers;
mod measure;
#[rustfmt::skip]
mod measured;
mod rust_side;
mod table;

use compare::{Crate, differences};
use illumos_sys_hdrs::{DDI_DEV_T_ANY, DDI_DEV_T_NONE, DDI_MAJOR_T_NONE, DDI_MAJOR_T_UNKNOWN, ib_gid_t};
use measure::{Constant, constant};
use rust_side::RustSide;
use table::Tables;

fn declared() -> Crate {
    let mut constants = measured::constants();
    constants.extend([
        constant!(DDI_DEV_T_ANY),
        constant!(DDI_DEV_T_NONE),
        constant!(DDI_MAJOR_T_NONE),
        constant!(DDI_MAJOR_T_UNKNOWN),
    ]);
    Crate { records: measured::records(), constants, source: RustSide::committed() }
}

#[test]
fn every_declaration_agrees_with_the_tables() {
    let krate = declared();
    let found = differences(&krate, &Tables::committed());
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    println!(
        "{} records, {} constants, {} functions and variables",
        krate.records.len(),
        krate.constants.len(),
        krate.source.symbol_names().count()
    );
}

/// Compares with tables that `plant` has changed in one place; the only difference found must be about `name`.
fn assert_found(name: &str, plant: impl FnOnce(&mut Tables)) {
    let mut tables = Tables::committed();
    plant(&mut tables);
    let found = differences(&declared(), &tables);
    assert_eq!(found.len(), 1, "one change planted, found {found:?}");
    assert!(found[0].starts_with(&format!("{name}: ")), "{name} was changed, found {found:?}");
}

#[test]
fn a_changed_record_size_is_found() {
    assert_found("mac_register_s", |t| t.records.get_mut("struct mac_register_s").unwrap().size += 8);
}

#[test]
fn a_changed_alignment_is_found() {
    assert_found("ibt_ip_addr_s", |t| t.records.get_mut("struct ibt_ip_addr_s").unwrap().align = 8);
}

#[test]
fn a_changed_offset_is_found() {
    assert_found("ibt_wc_s.wc_qpn", |t| *offset(t, "struct ibt_wc_s", "wc_qpn") += 4);
}

#[test]
fn a_changed_field_size_is_found() {
    assert_found("kstat_named.value", |t| field(t, "struct kstat_named", "value").size = 8);
}

#[test]
fn a_field_of_another_type_is_found() {
    assert_found("msgb.b_rptr", |t| field(t, "struct msgb", "b_rptr").ctype = "const unsigned char *".into());
}

#[test]
fn a_field_the_tables_add_is_found() {
    assert_found("ipoib_header.ipoib_vlan", |t| {
        let record = t.records.get_mut("struct ipoib_header").unwrap();
        let mut added = record.fields[0].clone();
        added.name = "ipoib_vlan".into();
        record.fields.push(added);
    });
}

#[test]
fn a_field_the_tables_lack_is_found() {
    assert_found("ipoib_header.ipoib_mbz", |t| {
        let record = t.records.get_mut("struct ipoib_header").unwrap();
        record.fields.retain(|f| f.name != "ipoib_mbz");
    });
}

#[test]
fn a_shifted_bit_field_is_found() {
    assert_found("ibt_adds_vect_s.av_flow", |t| {
        *field(t, "struct ibt_adds_vect_s", "av_flow").bit.as_mut().unwrap() += 4
    });
}

#[test]
fn a_narrowed_bit_field_is_found() {
    assert_found("ibt_wc_s.wc_sl", |t| *field(t, "struct ibt_wc_s", "wc_sl").bits.as_mut().unwrap() = 3);
}

#[test]
fn a_changed_macro_is_found() {
    assert_found("DDI_PROP_NOTPROM", |t| t.constants.get_mut("DDI_PROP_NOTPROM").unwrap().value = 4);
}

#[test]
fn a_changed_enumerator_is_found() {
    assert_found("IBT_CQ_EMPTY", |t| {
        *t.enums.get_mut("enum ibt_status_e").unwrap().get_mut("IBT_CQ_EMPTY").unwrap() = 504;
    });
}

#[test]
fn a_changed_argument_is_found() {
    assert_found("mac_rx", |t| t.functions.get_mut("mac_rx").unwrap().args[2].1 = "mblk_t **".into());
}

#[test]
fn a_changed_return_type_is_found() {
    assert_found("snprintf", |t| t.functions.get_mut("snprintf").unwrap().ret = "int".into());
}

#[test]
fn a_prototype_that_becomes_variadic_is_found() {
    assert_found("kmem_free", |t| t.functions.get_mut("kmem_free").unwrap().variadic = true);
}

#[test]
fn a_variable_of_another_type_is_found() {
    assert_found("hz", |t| t.functions.get_mut("hz").unwrap().data = Some("long".into()));
}

#[test]
fn a_symbol_the_tables_lack_is_found() {
    assert_found("ibt_get_paths", |t| _ = t.functions.remove("ibt_get_paths"));
}

fn field<'t>(tables: &'t mut Tables, record: &str, name: &str) -> &'t mut table::Field {
    let record = tables.records.get_mut(record).expect("the tests name records that are declared");
    record.fields.iter_mut().find(|f| f.name == name).expect("the tests name fields that exist")
}

fn offset<'t>(tables: &'t mut Tables, record: &str, name: &str) -> &'t mut usize {
    &mut field(tables, record, name).offset
}

#[test]
fn the_c_headers_agree_with_the_tables() {
    headers::check(&Tables::committed()).unwrap();
}

#[test]
fn a_difference_from_the_c_headers_stops_the_compiler() {
    for (name, plant) in [
        ("wc_qpn", (|t| *offset(t, "struct ibt_wc_s", "wc_qpn") += 4) as fn(&mut Tables)),
        ("IBT_CQ_EMPTY", |t| {
            _ = t.enums.get_mut("enum ibt_status_e").unwrap().insert("IBT_CQ_EMPTY".into(), 504)
        }),
        ("mac_rx", |t| t.functions.get_mut("mac_rx").unwrap().proto = "void (mac_handle_t)".into()),
    ] {
        let mut tables = Tables::committed();
        plant(&mut tables);
        let complaint = headers::check(&tables).expect_err("a change was planted");
        assert!(complaint.contains(name), "{name} was changed; the compiler says:\n{complaint}");
    }
}

#[test]
fn every_header_can_be_included_alone() {
    let dir = tempfile::tempdir().unwrap();
    for name in headers::all() {
        let file = dir.path().join("alone.c");
        std::fs::write(&file, format!("#include <{name}>\n")).unwrap();
        headers::compile(&file).unwrap_or_else(|complaint| panic!("{name} alone:\n{complaint}"));
    }
}

#[test]
fn no_header_is_left_out_of_the_bindings() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let mut dirs = vec![std::path::PathBuf::from(root)];
    let included = headers::all();
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                assert!(included.contains(&name), "wrapper.h does not include {name}");
            }
        }
    }
}

#[test]
fn a_c_consumer_of_mac_ib_h_converts_a_grh_in_place() {
    headers::execute(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/abi/consumer.c").as_ref()).unwrap();
}

#[test]
fn a_driver_shim_compiles_without_a_warning() {
    headers::compile(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/abi/shim.c").as_ref()).unwrap();
}

#[test]
fn a_gid_is_two_host_endian_words_in_memory() {
    let gid = ib_gid_t::new(0xfe80_0000_0000_0000, 0x0002_c903_0000_1234);
    assert_eq!((gid.gid_prefix(), gid.gid_guid()), (0xfe80_0000_0000_0000, 0x0002_c903_0000_1234));
    // SAFETY: a GID is 16 bytes of integers without padding.
    let words: [u64; 2] = unsafe { std::mem::transmute(gid) };
    assert_eq!(words, [0xfe80_0000_0000_0000, 0x0002_c903_0000_1234]);
}

//! The interface against a gate's headers: our own headers stand in for a gate's, and one thing is planted at a time.

mod support;

use std::fs;
use std::path::Path;

use gate::abi::{Difference, check};
use support::{Small, files, tree};

/// A gate whose headers are ours.
fn gate() -> Small {
    let small = Small::new();
    for from in ["rust/illumos-sys-hdrs/include", "usr/src/uts/common/sys"] {
        let to = if from.ends_with("sys") { "usr/src/uts/common/sys" } else { "usr/src/uts/common" };
        let from = tree().join(from);
        for path in files(&from).keys().filter(|path| from.join(path).is_file()) {
            let to = small.root().join(to).join(path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from.join(path), to).unwrap();
        }
    }
    small
}

fn planted(header: &str, from: &str, to: &str) -> Vec<Difference> {
    let small = gate();
    let path = Path::new("usr/src/uts/common").join(header);
    let path = path.to_str().unwrap();
    let text = small.read(path);
    assert!(text.contains(from), "{header} has no `{from}`");
    small.write(path, &text.replacen(from, to, 1));
    check(&tree(), &small.gate()).unwrap().differences
}

/// The one difference that is not about padding further on: name, what, consequence.
#[track_caller]
fn expect(found: &[Difference], name: &str, what: &str, consequence: &str) {
    let this = found.iter().any(|difference| {
        difference.name == name && difference.what == what && difference.consequence.contains(consequence)
    });
    assert!(this, "{found:#?}");
}

#[test]
fn headers_that_say_what_we_assume_make_no_difference() {
    let report = check(&tree(), &gate().gate()).unwrap();
    assert!(report.differences.is_empty(), "{:#?}", report.differences);
    assert!(report.compared > 5000, "{}", report.compared);
}

#[test]
fn a_longer_record_is_found_and_who_would_make_it_too_short() {
    let found = planted(
        "sys/ib/ibtl/ibtl_types.h",
        "struct ibt_cq_attr_s {\n",
        "struct ibt_cq_attr_s {\n\tlong cq_new;\n",
    );
    expect(&found, "struct ibt_cq_attr_s", "the size is 32 there, 24 here", "rust/ibtf/src/");
}

#[test]
fn a_record_used_by_its_typedef_is_known_to_be_used_and_an_explained_difference_does_no_harm() {
    let end = "	lso_basic_tcp_ipv4_t	lso_basic_tcp_ipv4;\n";
    let found = planted("sys/mac_provider.h", end, &format!("{end}	int	lso_basic_tcp_ipv6;\n"));
    expect(
        &found,
        "struct mac_capab_lso_s",
        "the size is 12 there, 8 here",
        "none: newer gates added room for IPv6",
    );
    assert!(!found[0].harmful);
    let found = planted("sys/mac_provider.h", end, &format!("{end}	long	lso_basic_tcp_ipv6;\n"));
    let size = "the size is 16 there, 8 here";
    expect(
        &found,
        "struct mac_capab_lso_s",
        size,
        "rust/gldv3/src/table.rs would make one that is too short",
    );
    assert!(found[0].harmful);
}

#[test]
fn what_newer_gates_changed_and_the_driver_uses_does_no_harm() {
    let end = "	mac_rem_mac_addr_t	mgi_remmac;\n";
    let found =
        planted("sys/mac_provider.h", end, &format!("{end}	void	*mgi_addvlan;\n	void	*mgi_remvlan;\n"));
    expect(
        &found,
        "struct mac_group_info_s",
        "the size is 104 there, 88 here",
        "none: newer gates added VLAN filters",
    );
    assert!(found.iter().all(|difference| !difference.harmful), "{found:#?}");
    for (function, because) in [
        ("ddi_create_minor_node", "none: `const`"),
        ("ddi_remove_minor_node", "none: see ddi_create_minor_node"),
    ] {
        let (before, now) = (prototype(function), prototype(function).replace("char *", "const char *"));
        let found = planted("sys/sunddi.h", &before, &now);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].name == function && found[0].consequence.starts_with(because), "{found:#?}");
        assert!(!found[0].harmful);
    }
}

/// How our `sys/sunddi.h` declares a function.
fn prototype(function: &str) -> String {
    let header = fs::read_to_string(tree().join("rust/illumos-sys-hdrs/include/sys/sunddi.h")).unwrap();
    let (_, rest) = header.split_once(&format!(" {function}(")).unwrap();
    format!("{function}({};", rest.split_once(';').unwrap().0)
}

#[test]
fn a_field_of_another_type_is_found() {
    let found = planted("sys/stream.h", "	unsigned char	*b_rptr;", "	char	*b_rptr;");
    expect(
        &found,
        "struct msgb.b_rptr",
        "the type is char ** there, unsigned char * here",
        "would read or write other",
    );
    assert_eq!(found.len(), 1, "{found:#?}");
}

#[test]
fn a_constant_of_another_value_is_found() {
    let found = planted("sys/mac_provider.h", "MAC_VERSION\t1", "MAC_VERSION\t77");
    expect(&found, "MAC_VERSION", "the value is 0x4d there, 0x1 here", "mean something else");
    assert_eq!(found.len(), 1, "{found:#?}");
}

#[test]
fn another_prototype_and_a_function_that_is_gone_are_found() {
    let found =
        planted("sys/mac_provider.h", "mac_tx_update(mac_handle_t)", "mac_tx_update(mac_handle_t, int)");
    let (name, consequence) = ("mac_tx_update", "would pass or take other arguments");
    expect(
        &found,
        name,
        "the prototype is void (*)(struct __mac_handle *, int) there, void (mac_handle_t) here",
        consequence,
    );
    let found = planted("sys/mac_provider.h", "mac_tx_update(", "mac_tx_updated(");
    expect(&found, name, "is not there", "the module would not load");
}

#[test]
fn a_bit_field_elsewhere_is_found() {
    let found = planted("sys/ib/ibtl/ibtl_types.h", "av_flow:20", "av_flow:24");
    assert!(found.iter().any(|difference| difference.name == "struct ibt_adds_vect_s.av_flow"), "{found:#?}");
}

#[test]
fn what_nothing_of_ours_uses_is_told_and_does_no_harm() {
    let found = planted("sys/errno.h", "ENOTUNIQ\t0x50", "ENOTUNIQ\t0x1");
    expect(&found, "ENOTUNIQ", "the value is 0x1 there, 0x50 here", "none: nothing that ships uses it");
    assert!(!found[0].harmful);
}

#[test]
fn a_gate_whose_headers_cannot_be_compiled_is_said_to_be_one() {
    let small = gate();
    small.write("usr/src/uts/common/sys/mac.h", "#include <sys/generated.h>\n");
    let reason = format!("{:#}", check(&tree(), &small.gate()).unwrap_err());
    assert!(
        reason.contains("do not compile by themselves") && reason.contains("sys/generated.h"),
        "{reason}"
    );
    fs::remove_file(small.root().join("usr/src/uts/common/sys/ibpart.h")).unwrap();
    let reason = format!("{:#}", check(&tree(), &small.gate()).unwrap_err());
    assert!(reason.contains("no <sys/ibpart.h>"), "{reason}");
}

#[test]
fn the_shims_compile_against_a_gates_headers_and_join_the_rust_parts() {
    let kernel = tempfile::tempdir().unwrap();
    let built = gate::modules::build(&tree(), &gate().gate(), kernel.path()).unwrap();
    let names = ["mac/amd64/mac_ib", "drv/amd64/ibd", "drv/amd64/ibp", "drv/amd64/swhca"];
    assert_eq!(built, names.map(|name| kernel.path().join(name)));
    let image = fs::read(&built[2]).unwrap();
    let text = String::from_utf8_lossy(&image);
    assert!(
        text.contains("misc/mac misc/ibtl misc/ibcm misc/dls drv/dld\0") && text.contains("kmod_linkage")
    );
}

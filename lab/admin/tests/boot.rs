//! What a machine makes of its files when it boots.

#![forbid(unsafe_code)]

mod scripted;

use lab_gldv3::{PropertyId, PropertyValue};
use scripted::Scripted;

#[test]
fn properties_are_set_at_boot_as_illumos_does_in_whatever_order_the_file_has_them() {
    let private = |name: &str| (PropertyId::Private(name.into()), PropertyValue::Text("64".into()));
    let expected = [
        (PropertyId::IbLinkMode, PropertyValue::U32(1)),
        (PropertyId::Mtu, PropertyValue::U32(9000)),
        private("_ibd_num_ah"),
        private("_ibd_hash_size"),
    ];
    // The one that was set last stands first.
    for file in [
        "mtu=string,9000;linkmode=string,cm;_ibd_num_ah=string,64;_ibd_hash_size=string,64;",
        "_ibd_num_ah=string,64;linkmode=string,cm;_ibd_hash_size=string,64;mtu=string,9000;",
    ] {
        let system = Scripted::new();
        let line =
            format!("p8001.ibp0\tclass=int,256;media=int,26;{file}pkey=int,32769;linkover=string,ibp0;\n");
        system.files.borrow_mut().insert("etc/dladm/datalink.conf".into(), line);
        assert_eq!(admin::boot_partitions(&system), []);
        assert_eq!(*system.given.borrow(), expected, "{file}");
    }
}

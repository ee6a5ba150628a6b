//! Partitions, each there once, with groups that the fabric's links can carry.

use std::collections::BTreeSet;

use super::{Checked, check_mtu, check_pkey, fault};
use crate::scenario::Scenario;

pub fn check(scenario: &Scenario) -> Checked {
    let mut known = BTreeSet::new();
    for partition in &scenario.partition {
        let partition = partition.get_ref();
        check_pkey(&partition.pkey)?;
        check_mtu(&partition.mtu)?;
        let pkey = *partition.pkey.get_ref();
        if !known.insert(pkey & 0x7fff) {
            let message =
                format!("partition {pkey:#06x} is there twice: the highest bit makes no other one of it");
            return fault(&partition.pkey, message);
        }
        if partition.ipoib && partition.mtu.get_ref() > scenario.fabric.mtu.get_ref() {
            let message =
                format!("MTU {} is larger than the fabric's {}", partition.mtu, scenario.fabric.mtu);
            return fault(&partition.mtu, message);
        }
    }
    Ok(())
}

//! Partitions, each there once, with groups that the fabric's links can carry.

use std::collections::BTreeSet;

use super::{Checked, Fault, check_mtu, check_pkey, fault};
use crate::scenario::{PartitionSpec, Scenario};

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
        check_group(partition)?;
    }
    Ok(())
}

/// What is said of a broadcast group is of one that the subnet manager makes, and links find it.
fn check_group(partition: &PartitionSpec) -> Checked {
    if let (false, Some((field, span))) = (partition.ipoib, partition.unusual()) {
        let message = format!(
            "`{field}` is of the broadcast group that the subnet manager makes, and `ipoib` is false"
        );
        return Err(Fault { span, message });
    }
    match &partition.scope {
        Some(scope) if !SCOPES.contains(scope.get_ref()) => fault(
            scope,
            format!("no link looks for its broadcast group in scope {scope}, expected 2, 5, 8 or 14"),
        ),
        _ => Ok(()),
    }
}

/// Where a link looks for its broadcast group.
const SCOPES: [u8; 4] = [2, 5, 8, 0xe];

//! Whatever arrives, the administrator answers or does not; it never panics and never leaks groups.

use crate::world::*;
use proptest::prelude::*;
use sm::records::{McMemberRecord, mc_member_mask as mask};
use sm::*;

fn any_step() -> impl Strategy<Value = (usize, bool, u8, u8)> {
    (0..3_usize, any::<bool>(), 0..4_u8, 0..16_u8)
}

proptest! {
    #[test]
    fn any_bytes_from_any_port(mads in prop::collection::vec((prop::collection::vec(any::<u8>(), 256), 0..6_u16, any::<prop::sample::Index>()), 1..40)) {
        const ATTRIBUTES: [u16; 9] = [0x01, 0x03, 0x11, 0x12, 0x31, 0x35, 0x38, 0x3a, 0x02];
        const METHODS: [u8; 8] = [0x01, 0x02, 0x06, 0x12, 0x14, 0x15, 0x81, 0x86];
        let mut world = World::open();
        for (bytes, lid, pick) in mads {
            let mut bytes: [u8; 256] = bytes.try_into().unwrap();
            bytes[..3].copy_from_slice(&[1, 3, 2]);
            bytes[3] = METHODS[pick.index(METHODS.len())];
            bytes[16..18].copy_from_slice(&ATTRIBUTES[pick.index(ATTRIBUTES.len())].to_be_bytes());
            bytes[25] &= 7;
            bytes[36..44].fill(0);
            world.sm.receive(world.now, sm::sa::Address { lid: Lid(lid), qpn: Qpn::GSI }, &Mad(bytes));
            world.run(Nanos::from_millis(1));
        }
        world.run(Nanos::from_millis(10_000));
        prop_assert_eq!(world.sm.poll_timeout(), None);
    }

    #[test]
    fn memberships_are_what_the_answers_said(steps in prop::collection::vec(any_step(), 1..60)) {
        let ports = [A, B, C];
        let mut world = World::open();
        let mut expected = std::collections::BTreeMap::<(Gid, Guid), JoinState>::new();
        for (port, is_join, group, bits) in steps {
            let (port, mgid) = (ports[port], ipv4(u64::from(group)));
            let asked = McMemberRecord { join_state: JoinState::truncating(bits), ..join(mgid, port) };
            let method = if is_join { Method::SET } else { Method::DELETE };
            if let Ok(record) = world.ask_one(port, method, mask::CREATE, &asked) {
                if record.join_state.is_empty() {
                    expected.remove(&(mgid, port));
                } else {
                    expected.insert((mgid, port), record.join_state);
                }
                let alive = expected.iter().any(|((other, _), state)| *other == mgid && state.keeps_group());
                if !alive {
                    expected.retain(|(other, _), _| *other != mgid);
                }
            }
        }
        let mut found = std::collections::BTreeMap::new();
        for record in world.ask_table_as(A, 1, 0, &McMemberRecord::default()).unwrap() {
            found.insert((record.mgid, Guid(record.port_gid.guid)), record.join_state);
        }
        prop_assert_eq!(found, expected);
        let mlids: Vec<Lid> = world.sm.sa().groups().map(|(record, _)| record.mlid).collect();
        let distinct: std::collections::BTreeSet<Lid> = mlids.iter().copied().collect();
        prop_assert_eq!(mlids.len(), distinct.len());
    }
}

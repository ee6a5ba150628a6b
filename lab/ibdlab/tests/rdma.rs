//! What RDMA clients need of the IPoIB driver: they know an IP address, and ask through which port and partition it is reached.

mod rig;

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use ibdlab::desk::rehearsal::{Rehearsal, rehearse};
use ibdlab::scenario::load;
use lab_ibtf::{LinkPort, port_of_link};

/// The port under the interface that has an address.
fn port_under(desk: &Rehearsal, host: &str, address: IpAddr) -> Result<Option<LinkPort>> {
    let has = |known: &admin::Address| known.address.is_some_and(|(own, _)| own == address);
    let mut interfaces = desk.ip(host).interfaces().into_iter();
    let interface = interfaces.find(|one| one.addresses.iter().any(has)).context("an interface has it")?;
    let kernel = &desk.host(host).kernel;
    let link = lab_gldv3::links(kernel).into_iter().find(|link| link.name == interface.name);
    Ok(port_of_link(kernel, link.context("the interface has a link")?.id))
}

#[test]
fn an_rdma_client_finds_port_and_partition_of_each_address_of_a_host() {
    let root = tempfile::tempdir().expect("a directory");
    let scenario = load(&rig::root().join("scenarios/desk.toml")).expect("a scenario");
    let done = rehearse(scenario, &rig::proto(), 1, root.path().to_owned(), |desk| {
        for line in [
            "dladm create-part -l ibp0 -P 8001 p8001.ibp0",
            "ipadm create-if p8001.ibp0",
            "ipadm create-addr -T static -a 10.1.0.1/24 p8001.ibp0/v4",
        ] {
            let (said, code) = desk.run("alice", line);
            ensure!(code == 0, "{line}: {said}");
        }
        for (address, pkey) in [("10.0.0.1", 0xffff), ("10.1.0.1", 0x8001)] {
            let found = port_under(desk, "alice", address.parse()?)?;
            let found = found.with_context(|| format!("{address} leads to no port"))?;
            ensure!(
                (found.hca.0, found.gid.guid) == (0x0002_c903_000a_1b2c, 0x0002_c903_000a_1b2d),
                "{found:?}"
            );
            ensure!(found.pkey.0 == pkey, "{address}: {found:?}");
        }
        Ok(())
    });
    done.unwrap_or_else(|why| panic!("{why:#}"));
}

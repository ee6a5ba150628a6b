//! Both identities of the driver on one host: device nodes from `ib.conf`, drivers by the aliases of the packages' manifests.

mod rig;

use anyhow::{Result, ensure};
use fakekernel::Nanos;
use ibdlab::desk::rehearsal::{Rehearsal, rehearse};
use ibdlab::scenario::load;

/// Runs a script on `scenarios/side-by-side.toml` under some seeds.
fn side_by_side(script: fn(&Rehearsal) -> Result<()>) {
    for seed in 1..=4 {
        let root = tempfile::tempdir().expect("a directory");
        let scenario = load(&rig::root().join("scenarios/side-by-side.toml")).expect("a scenario");
        let done = rehearse(scenario, &rig::proto(), seed, root.path().to_owned(), script);
        done.unwrap_or_else(|why| panic!("seed {seed}: {why:#}"));
    }
}

/// What a command line says, which has to succeed.
fn said(desk: &Rehearsal, host: &str, line: &str) -> Result<String> {
    let (said, code) = desk.run(host, line);
    ensure!(code == 0, "{host}: {line}: {said}");
    Ok(said)
}

fn physical_links(desk: &Rehearsal, host: &str) -> Result<String> {
    said(desk, host, "dladm show-phys -p -o link,device,state")
}

const ADD: &str = "cfgadm -o comm=vppa,service=ibd -x add_service ib";
const DELETE: &str = "cfgadm -o comm=vppa,service=ibd -x delete_service ib";

#[test]
fn ibp_and_ibd_attach_to_nodes_of_their_own_and_both_carry_ip() {
    side_by_side(|desk| {
        for (host, n) in [("alice", 1), ("bob", 2)] {
            ensure!(physical_links(desk, host)? == "ibp0:ibp0:up\n", "nobody has added the service yet");
            said(desk, host, "devfsadm")?;
            ensure!(
                physical_links(desk, host)? == "ibp0:ibp0:up\n",
                "as illumos comes there are no nodes of P_Keys"
            );
            said(desk, host, ADD)?;
            said(desk, host, "devfsadm")?;
            // One link for each of the port's two P_Keys; closed, so nobody knows their state.
            let links = physical_links(desk, host)?;
            ensure!(links == "ibp0:ibp0:up\nibd0:ibd0:unknown\nibd1:ibd1:unknown\n", "{links}");
            // The node of P_Key 8001 comes first in the tree.
            said(desk, host, "ipadm create-if ibd0")?;
            said(desk, host, &format!("ipadm create-addr -T static -a 10.1.0.{n}/24 ibd0/v4"))?;
        }
        for to in ["10.0.0.2", "10.1.0.2"] {
            let answers = || desk.run("alice", &format!("ping {to} 1")).1 == 0;
            ensure!(desk.until(Nanos::from_secs(20), answers).is_some(), "{to} does not answer");
        }
        ensure!(
            said(desk, "alice", "dladm show-link -p -o link,state")?.contains("ibd0:up\n"),
            "its link is up"
        );
        Ok(())
    });
}

#[test]
fn a_service_of_ib_conf_is_listed_kept_and_taken_out_again() {
    side_by_side(|desk| {
        let services = || said(desk, "alice", "cfgadm -x list_services ib");
        let as_it_comes = "Port communication services:\n\t\tipib\n\n";
        ensure!(services()? == as_it_comes, "{}", services()?);
        said(desk, "alice", ADD)?;
        ensure!(
            services()? == format!("{as_it_comes}VPPA communication services:\n\t\tibd\n"),
            "{}",
            services()?
        );
        let (again, code) = desk.run("alice", ADD);
        ensure!(code == 1 && again.contains("service entry ibd exists"), "{again}");
        said(desk, "alice", DELETE)?;
        ensure!(services()? == as_it_comes, "{}", services()?);
        said(desk, "alice", "devfsadm")?;
        ensure!(physical_links(desk, "alice")? == "ibp0:ibp0:up\n", "no service, no nodes");
        Ok(())
    });
}

#[test]
fn an_ibd_among_the_services_of_ports_says_where_it_belongs() {
    side_by_side(|desk| {
        said(desk, "alice", "cfgadm -o comm=port,service=ibd -x add_service ib")?;
        said(desk, "alice", "devfsadm")?;
        ensure!(physical_links(desk, "alice")? == "ibp0:ibp0:up\n", "a port is no link of this driver");
        let console = desk.host("alice").kernel.genunix().messages();
        let line = "no property port-pkey: name ibd in vppa-svc-list of ib.conf, not in port-svc-list";
        ensure!(console.iter().any(|message| message.text.contains(line)), "{console:?}");
        Ok(())
    });
}

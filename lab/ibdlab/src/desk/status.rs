//! `ibdlab status`: what a lab's hosts have, as one value, and as lines for a person.

use lab_gldv3::LinkState;
use serde_json::{Value, json};

use super::host::DeskHost;
use super::server::Lab;

/// The state of the lab. On a thread of its machine.
pub fn of(lab: &Lab) -> Value {
    json!({
        "lab": lab.name,
        "subnet manager": lab.sm,
        "hosts": lab.hosts.iter().map(|host| of_host(host)).collect::<Vec<_>>(),
    })
}

const fn word(state: LinkState) -> &'static str {
    match state {
        LinkState::Up => "up",
        LinkState::Down => "down",
        LinkState::Unknown => "unknown",
    }
}

fn of_host(host: &DeskHost) -> Value {
    let interfaces = host.ip.interfaces();
    let links: Vec<Value> = lab_gldv3::links(&host.kernel)
        .into_iter()
        .map(|link| {
            let counters = lab_gldv3::mac_statistics(&host.kernel, &link.name).unwrap_or_default();
            let addresses: Vec<String> = interfaces
                .iter()
                .filter(|interface| interface.name == link.name)
                .flat_map(|interface| &interface.addresses)
                .filter_map(|address| address.address.map(|(ip, length)| format!("{ip}/{length}")))
                .collect();
            json!({
                "name": link.name,
                "state": word(link.state),
                "mtu": link.max_sdu,
                "in": counters.ipackets,
                "out": counters.opackets,
                "dropped": counters.ierrors + counters.oerrors + counters.norcvbuf + counters.noxmtbuf,
                "addresses": addresses,
            })
        })
        .collect();
    json!({ "name": host.name, "driver": host.driver.name(), "links": links })
}

/// The same for a person.
pub fn lines(status: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut lines =
        format!("lab {}: subnet manager {}\n", text(&status["lab"]), text(&status["subnet manager"]));
    for host in list(&status["hosts"]) {
        lines += &format!("  {} ({})\n", text(&host["name"]), text(&host["driver"]));
        for link in list(&host["links"]) {
            let addresses: Vec<String> = list(&link["addresses"]).iter().map(text).collect();
            let line = format!(
                "    {:<14} {:<8} mtu {:<6} in {:<10} out {:<10} dropped {:<6} {}",
                text(&link["name"]),
                text(&link["state"]),
                link["mtu"],
                link["in"],
                link["out"],
                link["dropped"],
                addresses.join(" ")
            );
            lines += line.trim_end();
            lines.push('\n');
        }
    }
    lines
}

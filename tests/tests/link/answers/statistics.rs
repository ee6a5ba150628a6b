//! Statistics and nodes.

use fakekernel::Errno;
use fakekernel::genunix::{KstatId, KstatValue};
use lab_ibtf::nexus;

use super::{Answer, Lab, of, unknown};

impl Lab<'_> {
    pub(super) fn about_the_host(&self, words: &[&str]) -> Answer {
        let kernel = &self.host.kernel;
        match *words {
            ["kstats"] => {
                let name = |id: KstatId| format!("{}:{}:{}", id.module, id.instance, id.name);
                // The lab's own are numbered as its ids of links are.
                let names = kernel.kstats().into_iter().map(|id| name(self.known_as(id)));
                Ok(names.collect::<Vec<_>>().join(" "))
            }
            ["kstat-form", module, instance, name] => {
                let instance: i32 = instance.parse().expect("a number");
                let is_it = |id: &KstatId| {
                    let id = self.known_as(id.clone());
                    id.module == module && id.instance == instance && id.name == name
                };
                let id = kernel.kstats().into_iter().find(is_it).ok_or_else(|| of(Errno::ENOENT))?;
                let class = kernel.kstat_origin(&id).expect("it is there").class;
                let values = kernel.read_kstat(&id).map_err(of)?;
                let fields = values.iter().map(|(name, value)| format!(" {name}:{}", kind(value)));
                Ok(format!("class={class}{}", fields.collect::<String>()))
            }
            ["nodes"] => {
                let mut names = Vec::new();
                for node in nexus::nodes(kernel).into_iter().filter(|node| node.port.0 > 0) {
                    let minors = node.device.minor_nodes();
                    names.push(node.path());
                    names.extend(minors.iter().map(|minor| format!("{}:{}", node.path(), minor.name)));
                }
                names.sort();
                Ok(names.join(" "))
            }
            _ => unknown(words),
        }
    }

    /// The driver's own statistics of a partition have the link's id, which is another number here.
    fn known_as(&self, mut id: KstatId) -> KstatId {
        if id.module == "ibp" && id.name != "mac" {
            id.instance = self.shown(id.instance.cast_unsigned()).cast_signed();
        }
        id
    }
}

fn kind(value: &KstatValue) -> &'static str {
    match value {
        KstatValue::Text(_) => "char",
        KstatValue::I32(_) => "int32",
        KstatValue::U32(_) => "uint32",
        KstatValue::I64(_) => "int64",
        KstatValue::U64(_) => "uint64",
    }
}

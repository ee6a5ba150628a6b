//! Statistics and nodes.

use fakekernel::Errno;
use fakekernel::genunix::{KstatId, KstatValue, PropertyValue as Property};
use lab_ibtf::nexus::{self, PortNode};

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
            ["tree"] => Ok(nexus::nodes(kernel).iter().map(in_words).collect::<Vec<_>>().join(" ")),
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

/// What is known of a node.
fn in_words(node: &PortNode) -> String {
    let PortNode { device, binding, .. } = node;
    let mut words =
        vec![node.path(), format!("instance={}", device.instance()), format!("binding={binding}")];
    device.with_properties(|properties| {
        if let Some(Property::Strings(names)) = properties.get("compatible") {
            words.extend(names.iter().map(|name| format!("compatible={name}")));
        }
        words.extend(properties.all().map(|(name, value)| format!("property={name}:{}", length(value))));
    });
    let minors = device.minor_nodes();
    words.extend(minors.iter().map(|minor| format!("minor={}:{}", minor.name, minor.node_type)));
    words.join(" ")
}

/// The type of a property, and octets of its value as it is kept.
fn length(value: &Property) -> String {
    match value {
        Property::Boolean => "any:0".to_owned(),
        Property::Int(values) => format!("int:{}", 4 * values.len()),
        Property::Int64(values) => format!("int64:{}", 8 * values.len()),
        Property::String(text) => format!("string:{}", text.len() + 1),
        Property::Strings(texts) => {
            format!("string:{}", texts.iter().map(|text| text.len() + 1).sum::<usize>())
        }
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

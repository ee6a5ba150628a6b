//! Properties of device nodes (`U/os/sunddi.c`): typed here, so that a property written as one type and read as another
//! fails to decode, as the encoded form of the real system does.

use std::collections::BTreeMap;

/// `DDI_PROP_DONTPASS`: do not ask the parent.
pub const DONTPASS: u32 = 0x0001;
/// `DDI_PROP_CANSLEEP`.
pub const CANSLEEP: u32 = 0x0002;
/// `DDI_PROP_NOTPROM`: not the firmware's properties.
pub const NOTPROM: u32 = 0x0008;

/// A property's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Present, without a value.
    Boolean,
    /// 32-bit integers, at least one.
    Int(Vec<i32>),
    /// 64-bit integers, at least one.
    Int64(Vec<i64>),
    /// A string.
    String(String),
    /// Several strings.
    Strings(Vec<String>),
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Int(vec![value])
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int64(vec![value])
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

/// Two lists of a node: what the driver set, which goes at detach, and what the node came with.
#[derive(Debug, Clone, Default)]
pub struct Properties {
    driver: BTreeMap<String, Value>,
    system: BTreeMap<String, Value>,
}

impl Properties {
    /// A node's own properties, as a parent nexus or a `.conf` file gives them.
    pub fn new(system: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self { driver: BTreeMap::new(), system: system.into_iter().collect() }
    }

    /// The value, the driver's before the system's.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.driver.get(name).or_else(|| self.system.get(name))
    }

    /// All of them: the driver's, then those that the node came with.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.driver.iter().chain(&self.system).map(|(name, value)| (name.as_str(), value))
    }

    /// `ddi_prop_update_*`.
    pub fn update(&mut self, name: &str, value: Value) {
        self.driver.insert(name.to_owned(), value);
    }

    /// `ddi_prop_remove`: whether there was one. The node's own properties stay.
    pub fn remove(&mut self, name: &str) -> bool {
        self.driver.remove(name).is_some()
    }

    /// `ddi_prop_remove_all`.
    pub fn remove_all(&mut self) {
        self.driver.clear();
    }

    /// Sets a property of the node's own: what a changed `.conf` file does.
    pub fn set_system(&mut self, name: &str, value: Value) {
        self.system.insert(name.to_owned(), value);
    }
}

/// What `ddi_prop_get_int` makes of a value: a boolean counts as 1, a longer array gives its first element, anything else
/// does not decode.
pub fn as_int(value: &Value) -> Option<i32> {
    match value {
        Value::Boolean => Some(1),
        Value::Int(values) => values.first().copied(),
        Value::Int64(_) | Value::String(_) | Value::Strings(_) => None,
    }
}

/// What `ddi_prop_get_int64` makes of a value.
pub fn as_int64(value: &Value) -> Option<i64> {
    match value {
        Value::Boolean => Some(1),
        Value::Int64(values) => values.first().copied(),
        Value::Int(_) | Value::String(_) | Value::Strings(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_own_value_hides_the_nodes_until_removed() {
        let mut node = Properties::new([("port-number".to_owned(), 1.into())]);
        node.update("port-number", 2.into());
        assert_eq!(node.get("port-number").and_then(as_int), Some(2));
        node.remove_all();
        assert_eq!(node.get("port-number").and_then(as_int), Some(1));
        assert!(!node.remove("port-number"));
    }

    #[test]
    fn a_value_of_another_type_does_not_decode() {
        assert_eq!(as_int(&7i64.into()), None);
        assert_eq!(as_int64(&7i32.into()), None);
        assert_eq!(as_int(&Value::Boolean), Some(1));
        assert_eq!(as_int(&"7".into()), None);
    }
}

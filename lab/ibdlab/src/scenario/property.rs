//! Link properties as `dladm set-linkprop` takes them: `linkmode = "ud"`, `mtu = 2044`, `_private = "1"`.

use std::fmt;

use lab_gldv3::{PropertyId, PropertyValue};
use serde::{Deserialize, Serialize};

/// A property's value as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum PropertyText {
    Number(i64),
    Text(String),
}

impl PropertyText {
    /// What the link is asked to set.
    ///
    /// # Errors
    ///
    /// A property that there is not, or a value it cannot have: what was expected.
    pub fn property(&self, name: &str) -> Result<(PropertyId, PropertyValue), String> {
        match (name, self) {
            ("linkmode", Self::Text(mode)) if mode == "ud" => {
                Ok((PropertyId::IbLinkMode, PropertyValue::U32(0)))
            }
            ("linkmode", Self::Text(mode)) if mode == "cm" => {
                Ok((PropertyId::IbLinkMode, PropertyValue::U32(1)))
            }
            ("linkmode", _) => Err("linkmode is `ud` or `cm`".to_owned()),
            ("mtu", Self::Number(bytes)) => u32::try_from(*bytes)
                .map(|bytes| (PropertyId::Mtu, PropertyValue::U32(bytes)))
                .map_err(|_| format!("an MTU of {bytes} bytes is no MTU")),
            ("mtu", Self::Text(_)) => Err("mtu is a number of bytes".to_owned()),
            (private, _) if private.starts_with('_') => {
                Ok((PropertyId::Private(private.to_owned()), PropertyValue::Text(self.to_string())))
            }
            (unknown, _) => {
                Err(format!("property `{unknown}` is not known, expected `linkmode`, `mtu` or `_name`"))
            }
        }
    }
}

/// As `dladm` is given it.
impl fmt::Display for PropertyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_as_dladm_reads_them() {
        let text = |text: &str| PropertyText::Text(text.to_owned());
        let mode = |mode| Ok((PropertyId::IbLinkMode, PropertyValue::U32(mode)));
        assert_eq!(text("ud").property("linkmode"), mode(0));
        assert_eq!(text("cm").property("linkmode"), mode(1));
        assert!(text("rc").property("linkmode").is_err());
        let mtu = Ok((PropertyId::Mtu, PropertyValue::U32(2044)));
        assert_eq!(PropertyText::Number(2044).property("mtu"), mtu);
        assert!(PropertyText::Number(-1).property("mtu").is_err());
        let private = PropertyText::Number(7).property("_private");
        let expected = (PropertyId::Private("_private".to_owned()), PropertyValue::Text("7".to_owned()));
        assert_eq!(private, Ok(expected));
        assert!(text("ud").property("likmode").unwrap_err().contains("`likmode` is not known"));
    }
}

//! Known violations: a module that cannot be changed is run all the same, and what it is known for is counted and reported.

use crate::halt::Frame;
use crate::rule::Rule;

/// A known violation: noted with its count, and the machine runs on. It covers one rule, broken by one module in one place, never a
/// rule as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// The host whose module it is; `None` is any.
    pub host: Option<String>,
    /// Module name, e.g. `ibp`.
    pub module: String,
    /// The rule.
    pub rule: Rule,
    /// Kernel function or entry point; `None` is any.
    pub call: Option<String>,
    /// A function of the module that is at work: one of the backtrace's, or of what was left behind, one of those that took it.
    /// What a compiler appends behind a dot (`.constprop.0`) does not count. `None` is any.
    pub function: Option<String>,
    /// What shows that the module does that.
    pub evidence: String,
}

impl Suppression {
    fn covers(&self, host: &str, module: &str, rule: Rule, call: &str) -> bool {
        let is = |wanted: &Option<String>, found| wanted.as_deref().is_none_or(|wanted| wanted == found);
        self.module == module && self.rule == rule && is(&self.call, call) && is(&self.host, host)
    }

    fn is_about(&self, frames: &[Frame]) -> bool {
        let Some(wanted) = &self.function else { return true };
        frames.iter().any(|frame| frame.module == self.module && source_name(&frame.symbol) == wanted)
    }
}

/// The function as its source calls it.
fn source_name(symbol: &str) -> &str {
    symbol.split_once('.').map_or(symbol, |(name, _)| name)
}

/// The list of known violations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressions(pub Vec<Suppression>);

impl Suppressions {
    /// Number of the first entry that covers the case; `frames` is asked for only if one may.
    pub fn find(
        &self,
        host: &str,
        module: &str,
        rule: Rule,
        call: &str,
        frames: impl FnOnce() -> Vec<Frame>,
    ) -> Option<usize> {
        let mut candidates =
            self.0.iter().enumerate().filter(|(_, entry)| entry.covers(host, module, rule, call)).peekable();
        candidates.peek()?;
        let frames = frames();
        candidates.find(|(_, entry)| entry.is_about(&frames)).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Suppression, Suppressions};
    use crate::halt::Frame;
    use crate::rule::Rule;

    fn frame(module: &str, symbol: &str) -> Frame {
        Frame { module: module.into(), symbol: symbol.into(), offset: 4 }
    }

    #[test]
    fn an_entry_covers_its_host_module_rule_call_and_function_and_nothing_else() {
        let list = Suppressions(vec![Suppression {
            host: Some("bob".into()),
            module: "ibp".into(),
            rule: Rule::BadList,
            call: Some("list_insert_head".into()),
            function: Some("recycle".into()),
            evidence: "seen".into(),
        }]);
        let find = |module: &str, rule, call: &str, frames: &[Frame]| {
            list.find("bob", module, rule, call, || frames.to_vec())
        };
        let here = [frame("ibp", "helper"), frame("ibp", "recycle.constprop.0"), frame("lab", "")];
        assert_eq!(find("ibp", Rule::BadList, "list_insert_head", &here), Some(0));
        assert_eq!(list.find("alice", "ibp", Rule::BadList, "list_insert_head", || here.to_vec()), None);
        assert_eq!(find("ibd", Rule::BadList, "list_insert_head", &here), None);
        assert_eq!(find("ibp", Rule::Leak, "list_insert_head", &here), None);
        assert_eq!(find("ibp", Rule::BadList, "list_remove", &here), None);
        assert_eq!(find("ibp", Rule::BadList, "list_insert_head", &[frame("ibp", "recycled")]), None);
        assert_eq!(find("ibp", Rule::BadList, "list_insert_head", &[frame("mac_ib", "recycle")]), None);
    }
}

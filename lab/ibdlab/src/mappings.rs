//! Mappings of memory, of which Linux lets a process have so many: stacks of threads take most of them.

use anyhow::{Result, ensure};

/// How many a host of a scenario takes at most: 93 at 200 hosts, while they start.
pub const OF_A_HOST: usize = 100;

/// Whether the system lets so many hosts have so many mappings each.
///
/// # Errors
///
/// It does not; what to do about it.
pub fn check(hosts: usize, each: usize) -> Result<()> {
    check_allowed(hosts, each, allowed())
}

/// How many this process may have, if the system says so.
fn allowed() -> Option<usize> {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}

fn check_allowed(hosts: usize, each: usize, allowed: Option<usize>) -> Result<()> {
    let needed = hosts * each;
    ensure!(
        allowed.is_none_or(|allowed| needed <= allowed),
        "{hosts} hosts take up to {needed} mappings of memory, and the system allows {}: sysctl vm.max_map_count={needed}",
        allowed.unwrap_or_default()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_allowed;

    #[test]
    fn more_hosts_than_the_system_has_mappings_for_are_refused_and_what_to_do_is_said() {
        assert!(check_allowed(900, 70, Some(65_530)).is_ok());
        assert!(check_allowed(1001, 70, None).is_ok());
        let refused = check_allowed(1001, 70, Some(65_530)).expect_err("too many").to_string();
        assert!(refused.ends_with("sysctl vm.max_map_count=70070"), "{refused}");
    }
}

//! The date as `date(1)` writes it in the C locale. A host of the lab lives in UTC.

use std::time::Duration;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Since 1970, `%a %b %e %H:%M:%S %Z %Y`.
pub(crate) fn text(time: Duration) -> String {
    let (days, seconds) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
    let (year, month, day) = of_days(days);
    format!(
        "{} {} {day:>2} {:02}:{:02}:{:02} UTC {year}",
        DAYS[(days % 7) as usize],
        MONTHS[month],
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Year, month from 0, and day from 1, of a day since 1970.
fn of_days(mut days: u64) -> (u64, usize, u64) {
    // 146,097 days are 400 years, after which the calendar is the same again.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= length(year) {
        days -= length(year);
        year += 1;
    }
    let february = 28 + u64::from(length(year) == 366);
    let mut month = 0;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

/// Days of a year.
fn length(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    365 + u64::from(leap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_leap_years_and_of_others() {
        for (seconds, expected) in [
            (0, "Thu Jan  1 00:00:00 UTC 1970"),
            (951_782_399, "Mon Feb 28 23:59:59 UTC 2000"),
            (951_782_400, "Tue Feb 29 00:00:00 UTC 2000"),
            (1_793_999_042, "Fri Nov  6 21:04:02 UTC 2026"),
            (1_798_761_599, "Thu Dec 31 23:59:59 UTC 2026"),
            (4_107_542_400, "Mon Mar  1 00:00:00 UTC 2100"),
            (13_574_563_200, "Tue Feb 29 00:00:00 UTC 2400"),
        ] {
            assert_eq!(text(Duration::from_secs(seconds)), expected);
        }
    }
}

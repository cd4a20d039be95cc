//! The real-time clock's registers as a time.
//!
//! Pure arithmetic, so that it is tested on the host.

/// The date and time in the registers of the clock, in one of its notations
/// (Motorola MC146818A datasheet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) second: u8,
    pub(super) minute: u8,
    /// With [`PM`] in the notation of 12 hours.
    pub(super) hour: u8,
    pub(super) day: u8,
    pub(super) month: u8,
    /// Of the century, which no register tells for sure.
    pub(super) year: u8,
    /// Status register B, which says how the others are to be read.
    pub(super) status_b: u8,
}

/// The hours count to 24.
const HOURS_24: u8 = 1 << 1;
/// The numbers are binary, not two decimal digits.
const BINARY: u8 = 1 << 2;
/// Marks the hours after noon.
const PM: u8 = 1 << 7;

const DAYS_OF_MONTHS: [u8; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Days from 1970 to 2000.
const DAYS_TO_2000: u64 = 10_957;

impl Registers {
    /// The seconds since 1970, for years from 2000 to 2099; `None` if it is no
    /// date.
    pub(super) fn unix_seconds(self) -> Option<u64> {
        let [second, minute, day, month, year] =
            [self.second, self.minute, self.day, self.month, self.year]
                .map(|number| self.number(number));
        let (second, minute, day, month, year) = (second?, minute?, day?, month?, year?);
        let hour = self.hour()?;
        // Of the years in question every fourth is a leap year.
        let leap = u8::from(year.is_multiple_of(4));
        let length = |month: usize| DAYS_OF_MONTHS[month] + if month == 1 { leap } else { 0 };
        let month = usize::from(month).checked_sub(1)?;
        if second > 59
            || minute > 59
            || month > 11
            || !(1..=length(month)).contains(&day)
            || year > 99
        {
            return None;
        }
        let year = u64::from(year);
        let before_this_year = 365 * year + year.div_ceil(4);
        let before_this_month: u64 = (0..month).map(|month| u64::from(length(month))).sum();
        let days = DAYS_TO_2000 + before_this_year + before_this_month + u64::from(day - 1);
        let minutes = (days * 24 + u64::from(hour)) * 60 + u64::from(minute);
        Some(minutes * 60 + u64::from(second))
    }

    fn hour(self) -> Option<u8> {
        if self.status_b & HOURS_24 != 0 {
            return self.number(self.hour).filter(|&hour| hour < 24);
        }
        let hour = self.number(self.hour & !PM)?;
        let noon = if self.hour & PM != 0 { 12 } else { 0 };
        (1..=12).contains(&hour).then_some(hour % 12 + noon)
    }

    fn number(self, register: u8) -> Option<u8> {
        if self.status_b & BINARY != 0 {
            return Some(register);
        }
        let (tens, ones) = (register >> 4, register & 0xf);
        (tens < 10 && ones < 10).then_some(tens * 10 + ones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decimal digits and 24 hours, as most firmware leaves it.
    fn decimal(date: [u8; 3], time: [u8; 3]) -> Registers {
        Registers {
            second: time[2],
            minute: time[1],
            hour: time[0],
            day: date[2],
            month: date[1],
            year: date[0],
            status_b: HOURS_24,
        }
    }

    #[test]
    fn dates_are_counted_from_1970() {
        for (date, time, seconds) in [
            ([0x00, 0x01, 0x01], [0, 0, 0], 946_684_800),
            ([0x00, 0x02, 0x29], [0x23, 0x59, 0x59], 951_868_799),
            ([0x00, 0x03, 0x01], [0, 0, 0], 951_868_800),
            ([0x26, 0x11, 0x30], [0x19, 0x48, 0x16], 1_796_068_096),
            ([0x38, 0x01, 0x19], [0x03, 0x14, 0x08], 1 << 31),
            ([0x99, 0x12, 0x31], [0x23, 0x59, 0x59], 4_102_444_799),
        ] {
            assert_eq!(decimal(date, time).unix_seconds(), Some(seconds));
        }
    }

    #[test]
    fn every_notation_is_read() {
        let noon = decimal([0x00, 0x01, 0x01], [0x12, 0x34, 0x56]);
        let seconds = noon.unix_seconds();
        assert_eq!(seconds, Some(946_684_800 + 12 * 3600 + 34 * 60 + 56));
        let binary = Registers {
            hour: 12,
            minute: 34,
            second: 56,
            status_b: HOURS_24 | BINARY,
            ..noon
        };
        assert_eq!(binary.unix_seconds(), seconds);
        for (hour, wanted) in [(0x12, 0), (0x01, 1), (0x12 | PM, 12), (0x11 | PM, 23)] {
            let registers = Registers {
                hour,
                status_b: 0,
                ..noon
            };
            assert_eq!(registers.hour(), Some(wanted));
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for (date, time) in [
            ([0x23, 0x02, 0x29], [0, 0, 0]),
            ([0x23, 0x00, 0x01], [0, 0, 0]),
            ([0x23, 0x13, 0x01], [0, 0, 0]),
            ([0x23, 0x01, 0x00], [0, 0, 0]),
            ([0x23, 0x04, 0x31], [0, 0, 0]),
            ([0x23, 0x01, 0x01], [0x24, 0, 0]),
            ([0x23, 0x01, 0x01], [0, 0x60, 0]),
            ([0x23, 0x01, 0x01], [0, 0, 0x5a]),
            ([0xff; 3], [0xff; 3]),
        ] {
            assert_eq!(decimal(date, time).unix_seconds(), None);
        }
    }
}

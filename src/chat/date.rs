//! [`Date`]: the day that templates are told, and its `strftime`.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A day of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    /// Reads `YYYY-MM-DD`; `None` for what is not a day.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let number = |range: std::ops::Range<usize>| -> Option<u32> {
            let digits = text.get(range)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        let date = Self { year: number(0..4)?, month: number(5..7)?, day: number(8..10)? };
        let is_day = (1..=12).contains(&date.month) && (1..=date.days_in_month()).contains(&date.day);
        is_day.then_some(date)
    }

    fn is_leap_year(self) -> bool {
        self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400))
    }

    fn days_in_month(self) -> u32 {
        match self.month {
            2 if self.is_leap_year() => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn day_of_year(self) -> u32 {
        (1..self.month).map(|month| Self { month, ..self }.days_in_month()).sum::<u32>() + self.day
    }

    /// 0 is Monday.
    fn weekday(self) -> usize {
        // Days since 0001-01-01, which was a Monday. Year 0 is a leap year, counted from the other side.
        let before = self.year as i64 - 1;
        let days = before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
        (days + i64::from(self.day_of_year()) - 1).rem_euclid(7) as usize
    }

    /// Python's `strftime` at midnight, for the directives that need no locale beyond English.
    ///
    /// # Errors
    /// The directive that is not known.
    pub fn strftime(self, format: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                out.push(character);
                continue;
            }
            let mut directive = characters.next();
            let unpadded = directive == Some('-');
            if unpadded {
                directive = characters.next();
            }
            let text = directive.and_then(|directive| self.field(directive));
            let Some(text) = text else {
                return Err(format!("%{}{}", if unpadded { "-" } else { "" }, directive.unwrap_or(' ')));
            };
            let stripped = if unpadded { text.trim_start_matches(['0', ' ']) } else { text.as_str() };
            out.push_str(if stripped.is_empty() { "0" } else { stripped });
        }
        Ok(out)
    }

    fn field(self, directive: char) -> Option<String> {
        let Self { year, month, day } = self;
        let month_name = MONTHS[month as usize - 1];
        let weekday = self.weekday();
        Some(match directive {
            'Y' => format!("{year:04}"),
            'y' => format!("{:02}", year % 100),
            'm' => format!("{month:02}"),
            'd' => format!("{day:02}"),
            'e' => format!("{day:2}"),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'A' => WEEKDAYS[weekday].to_owned(),
            'a' => WEEKDAYS[weekday][..3].to_owned(),
            'j' => format!("{:03}", self.day_of_year()),
            'u' => (weekday + 1).to_string(),
            'w' => ((weekday + 1) % 7).to_string(),
            'F' => format!("{year:04}-{month:02}-{day:02}"),
            'H' | 'M' | 'S' => "00".to_owned(),
            'I' => "12".to_owned(),
            'p' => "AM".to_owned(),
            'T' => "00:00:00".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

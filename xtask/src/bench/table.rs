//! Records as tables: a table for each figure, a row for each case, a column
//! for each system.

use super::record::Record;

/// One figure of all systems and cases of a suite.
#[derive(Debug, PartialEq)]
pub struct Table<'a> {
    /// The suite.
    pub bench: &'a str,
    /// What was measured.
    pub metric: &'a str,
    /// Its unit.
    pub unit: &'a str,
    /// The systems; the first is the one that the others are compared with.
    pub systems: Vec<&'a str>,
    /// The cases, in the order in which they were measured.
    pub rows: Vec<Row<'a>>,
}

/// A case, measured with the systems of the table.
#[derive(Debug, PartialEq)]
pub struct Row<'a> {
    /// The case.
    pub case: &'a str,
    /// A record for each system that has this case.
    pub records: Vec<Option<&'a Record>>,
}

/// The tables of `records`, in the order in which their figures first came.
pub fn tables(records: &[Record]) -> Vec<Table<'_>> {
    let mut tables: Vec<Table<'_>> = Vec::new();
    for record in records {
        let same = |table: &&mut Table<'_>| {
            table.bench == record.bench
                && table.metric == record.metric
                && table.unit == record.unit
        };
        match tables.iter_mut().find(same) {
            Some(table) => table.add(record),
            None => {
                let mut table = Table {
                    bench: &record.bench,
                    metric: &record.metric,
                    unit: &record.unit,
                    systems: Vec::new(),
                    rows: Vec::new(),
                };
                table.add(record);
                tables.push(table);
            }
        }
    }
    tables
}

impl<'a> Table<'a> {
    fn add(&mut self, record: &'a Record) {
        let column = position_or_push(
            &mut self.systems,
            |&name| name == record.system,
            || &record.system,
        );
        let row = position_or_push(
            &mut self.rows,
            |row| row.case == record.case,
            || Row {
                case: &record.case,
                records: Vec::new(),
            },
        );
        for row in &mut self.rows {
            row.records.resize(self.systems.len(), None);
        }
        self.rows[row].records[column] = Some(record);
    }

    /// Whether there is something to see: not if all is zero, such as errors.
    pub fn is_worth_a_plot(&self) -> bool {
        let mut records = self
            .rows
            .iter()
            .flat_map(|row| row.records.iter().flatten());
        records.any(|record| record.max > 0.0)
    }

    /// The systems that the first is compared with.
    pub fn others(&self) -> &[&'a str] {
        self.systems.get(1..).unwrap_or_default()
    }
}

impl Row<'_> {
    /// How often each other system's median goes into the first one's.
    pub fn ratios(&self) -> Vec<Option<f64>> {
        let (first, others) = match self.records.split_first() {
            Some((first, others)) => (*first, others),
            None => return Vec::new(),
        };
        let ratio = |other: &Option<&Record>| {
            let (first, other) = (first?.median, (*other)?.median);
            (other != 0.0).then(|| first / other)
        };
        others.iter().map(ratio).collect()
    }
}

fn position_or_push<T>(
    list: &mut Vec<T>,
    wanted: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) -> usize {
    list.iter().position(wanted).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    })
}

/// A figure with as many digits as it deserves, thousands apart.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text.as_str(), None),
    };
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => ("-", whole),
        None => ("", whole),
    };
    let mut result = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            result.push(',');
        }
        result.push(digit);
    }
    if let Some(fraction) = fraction {
        result.push('.');
        result.push_str(fraction);
    }
    result
}

/// The median, and in parentheses the smallest and the largest if they differ.
pub fn cell(record: Option<&Record>) -> String {
    let Some(record) = record else {
        return "–".to_owned();
    };
    let median = number(record.median);
    let (min, max) = (number(record.min), number(record.max));
    if min == max {
        median
    } else {
        format!("{median} ({min} – {max})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(system: &str, case: &str, median: f64) -> Record {
        Record::example("b", system, case, "m", median)
    }

    #[test]
    fn what_was_not_measured_stays_empty() {
        let records = [
            record("ours", "1", 10.0),
            record("ours", "2", 20.0),
            record("theirs", "2", 5.0),
        ];
        let tables = tables(&records);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].systems, ["ours", "theirs"]);
        assert_eq!(tables[0].rows[0].ratios(), [None]);
        assert_eq!(tables[0].rows[1].ratios(), [Some(4.0)]);
    }

    #[test]
    fn numbers_are_readable() {
        for (value, text) in [
            (0.0, "0"),
            (0.123_45, "0.123"),
            (1.234_5, "1.23"),
            (99.95, "100.0"),
            (1234.6, "1,235"),
            (1_234_567.0, "1,234,567"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}

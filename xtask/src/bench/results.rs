//! `benches/RESULTS.md`: the committed figures, a section for each suite.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

use super::machine;
use super::page::{METHOD, ratio_cell};
use super::record::Record;
use super::table::{self, Table, cell};

const HEADING: &str = "\n## ";

/// Puts the figures of `records`, which `command` took, into `file`; suites that were not measured keep
/// theirs.
///
/// # Errors
///
/// If the file cannot be read or written.
pub fn record(file: &Path, records: &[Record], command: &str) -> Result<()> {
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context("cannot read the results"),
    };
    let text = merged(&before, &sections(records, command));
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// A suite's part of the file, without its heading.
struct Section {
    bench: String,
    text: String,
}

/// The file with `new` sections in the place of those of the same suites.
fn merged(before: &str, new: &[Section]) -> String {
    let old = before.split(HEADING).skip(1).filter_map(|section| {
        let (bench, text) = section.split_once('\n')?;
        Some(Section {
            bench: bench.to_owned(),
            text: text.trim_end().to_owned(),
        })
    });
    let mut sections: Vec<Section> = old.collect();
    for section in new {
        let section = Section {
            bench: section.bench.clone(),
            text: section.text.clone(),
        };
        match sections.iter_mut().find(|old| old.bench == section.bench) {
            Some(old) => *old = section,
            None => sections.push(section),
        }
    }
    let mut text = format!("# Figures\n\nWritten by `cargo xtask bench --record`. {METHOD}\n");
    for Section { bench, text: body } in sections {
        let _ = writeln!(text, "{HEADING}{bench}\n{body}");
    }
    text
}

fn sections(records: &[Record], command: &str) -> Vec<Section> {
    let machine: Vec<String> = machine::description()
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let machine = machine.join("; ");
    let mut sections: Vec<Section> = Vec::new();
    for table in table::tables(records) {
        let section = match sections
            .iter_mut()
            .find(|section| section.bench == table.bench)
        {
            Some(section) => section,
            None => {
                sections.push(Section {
                    bench: table.bench.to_owned(),
                    text: format!(
                        "\n`{command}`, {}; {machine}.\n",
                        runs(records, table.bench)
                    ),
                });
                sections.last_mut().expect("one was just added")
            }
        };
        write_table(&mut section.text, &table);
    }
    sections
}

/// How many runs the figures of a suite are from.
fn runs(records: &[Record], bench: &str) -> String {
    let runs = records.iter().filter(|record| record.bench == bench);
    let runs = runs.map(|record| record.runs);
    let (least, most) = runs.fold((usize::MAX, 0), |(least, most), runs| {
        (least.min(runs), most.max(runs))
    });
    if least == most {
        format!("{most} runs")
    } else {
        format!("{least} to {most} runs")
    }
}

fn write_table(text: &mut String, table: &Table<'_>) {
    let _ = writeln!(text, "\n### {}, {}\n", table.metric, table.unit);
    let systems = table.systems.iter().map(|&system| system.to_owned());
    let others = table.others().iter().map(|other| format!("÷ {other}"));
    let head: Vec<String> = std::iter::once("case".to_owned())
        .chain(systems)
        .chain(others)
        .collect();
    write_row(text, &head);
    write_row(text, &vec!["---".to_owned(); head.len()]);
    for row in &table.rows {
        let records = row.records.iter().map(|record| cell(*record));
        let ratios = row.ratios().into_iter().map(ratio_cell);
        let cells: Vec<String> = std::iter::once(row.case.to_owned())
            .chain(records)
            .chain(ratios)
            .collect();
        write_row(text, &cells);
    }
}

fn write_row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bench: &str, system: &str, median: f64) -> Record {
        Record::example(bench, system, "a case", "requests", median).spread()
    }

    #[test]
    fn suites_that_were_not_measured_keep_their_figures() {
        let first = [
            record("boot", "firstpoll", 100.0),
            record("httpd", "firstpoll", 9000.0),
        ];
        let text = merged("", &sections(&first, "cargo xtask bench"));
        let second = [
            record("httpd", "firstpoll", 8000.0),
            record("httpd", "linux", 2000.0),
        ];
        let text = merged(&text, &sections(&second, "cargo xtask bench"));
        assert!(text.contains("| a case | 100 (90.0 – 110) |"), "{text}");
        let row = "| a case | 8,000 (7,200 – 8,800) | 2,000 (1,800 – 2,200) | 4.00 |";
        assert!(text.contains(row), "{text}");
        assert!(!text.contains("9,000"), "{text}");
        assert_eq!(text.matches("## boot").count(), 1);
    }
}

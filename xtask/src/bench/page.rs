//! The page with every table and plot.

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::machine;
use super::plot;
use super::record::Record;
use super::rounds::Failure;
use super::table::{self, Table, cell, number};

const STYLE: &str = "
body { font: 15px/1.45 sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ccc; text-align: right }
th:first-child, td:first-child { text-align: left }
figure { margin: 1rem 0; overflow-x: auto }
nav a { margin-right: 1rem }
";

/// How to read the figures.
pub const METHOD: &str = "Systems were measured in turn, round by round; a figure is the median of the \
rounds, with the smallest and the largest in parentheses. The columns “÷” are firstpoll's median (or \
that of the first column) divided by the other's: such ratios of one run count; absolute times are \
for context. Of netbench, “in the guest” is two tasks over a channel with firstpoll, and \
two threads over a channel with Linux; the Linux guest of netbench runs with mitigations off.";

/// The page, in HTML; `effort` says how much was measured.
///
/// # Errors
///
/// If a plot cannot be drawn.
pub fn html(records: &[Record], failures: &[Failure], effort: &str) -> Result<String> {
    let tables = table::tables(records);
    let mut benches: Vec<&str> = Vec::new();
    for table in &tables {
        if !benches.contains(&table.bench) {
            benches.push(table.bench);
        }
    }
    let mut sections = Vec::new();
    for bench in &benches {
        let mut parts = Vec::new();
        for table in tables.iter().filter(|table| table.bench == *bench) {
            let plot = table.is_worth_a_plot().then(|| plot::draw(table));
            parts.push((html_table(table), plot.transpose()?));
        }
        sections.push((*bench, parts));
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "firstpoll: figures" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "firstpoll: figures" }
                nav { @for bench in &benches { a href={ "#" (anchor(bench)) } { (bench) } } }
                p { (METHOD) }
                p { (effort) "." }
                table { @for (name, value) in machine::description() { tr { td { (name) } td { (value) } } } }
                @for failure in failures { p { strong { "Not measured: " } (failure.line) } }
                @for (bench, parts) in &sections {
                    h2 id=(anchor(bench)) { (bench) }
                    @for (table, plot) in parts {
                        (table)
                        @if let Some(plot) = plot { figure { (PreEscaped(plot)) } }
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

/// The place of a suite on the page: an id has no spaces.
fn anchor(bench: &str) -> String {
    bench.replace(' ', "-")
}

fn html_table(table: &Table<'_>) -> Markup {
    html! {
        h3 { (table.metric) ", " (table.unit) }
        table {
            tr {
                th { "case" }
                @for system in &table.systems { th { (system) } }
                @for other in table.others() { th { "÷ " (other) } }
            }
            @for row in &table.rows {
                tr {
                    td { (row.case) }
                    @for record in &row.records { td { (cell(*record)) } }
                    @for ratio in row.ratios() { td { (ratio_cell(ratio)) } }
                }
            }
        }
    }
}

pub fn ratio_cell(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_on_the_page_with_its_plot() -> Result<()> {
        let record = |system, case, median| {
            Record::example("httpd", system, case, "requests", median).spread()
        };
        let records = [
            record("firstpoll", "1 <connection>", 9000.0),
            record("linux", "1 <connection>", 3000.0),
            record("firstpoll", "128 connections", 90_000.0),
        ];
        let failure = Failure {
            bench: "httpd",
            line: "nothing".to_owned(),
        };
        let page = html(&records, &[failure], "One short round")?;
        for part in [
            "<svg",
            "1 &lt;connection&gt;",
            "9,000 (8,100 – 9,900)",
            "Not measured",
            "One short round.",
        ] {
            assert!(page.contains(part), "{part}");
        }
        Ok(())
    }
}

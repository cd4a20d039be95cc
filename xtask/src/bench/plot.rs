//! Plots, as SVG.
//!
//! One form for all: a band for each case, in it a dot for each system at its
//! median, with a line from its smallest to its largest figure.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::record::Record;
use super::table::{Table, number};

const WIDTH: u32 = 900;
const LINE_HEIGHT: u32 = 18;
const MARGIN: u32 = 16;
/// The room for the names of cases.
const LABELS: u32 = 250;
const FONT: (&str, u32) = ("sans-serif", 13);
/// A wider range of figures is drawn on a logarithmic axis.
const LINEAR_RANGE: f64 = 15.0;

/// Colours that stay apart for those who see colours differently (Okabe and
/// Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(160, 130, 30),
];

type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The plot of a table.
///
/// # Errors
///
/// If it cannot be drawn.
pub fn draw(table: &Table<'_>) -> Result<String> {
    let bands: Vec<u32> = table
        .rows
        .iter()
        .map(|row| band_height(row.records.len()))
        .collect();
    let legend = LINE_HEIGHT * table.systems.len() as u32;
    let height = bands.iter().sum::<u32>() + legend + 4 * MARGIN + LINE_HEIGHT;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw_on(&root, table, &bands).map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    Ok(svg)
}

fn band_height(systems: usize) -> u32 {
    (systems as u32 * 9 + 10).max(LINE_HEIGHT + 4)
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_on(root: &Root<'_>, table: &Table<'_>, bands: &[u32]) -> Drawn {
    root.fill(&WHITE)?;
    let legend = LINE_HEIGHT * table.systems.len() as u32;
    let (legend_area, chart_area) = root.split_vertically(legend + 2 * MARGIN);
    draw_legend(&legend_area, table)?;

    let records = || {
        table
            .rows
            .iter()
            .flat_map(|row| row.records.iter().flatten())
    };
    let smallest = records()
        .map(|record| record.min)
        .fold(f64::INFINITY, f64::min);
    let largest = records().map(|record| record.max).fold(0.0, f64::max);
    let (names, chart_area) = chart_area.split_horizontally(LABELS);
    let total: u32 = bands.iter().sum();
    let mut builder = ChartBuilder::on(&chart_area);
    builder
        .margin_right(3 * MARGIN)
        .margin_bottom(MARGIN)
        .x_label_area_size(LINE_HEIGHT + MARGIN);
    let y = f64::from(total)..0.0;
    if smallest > 0.0 && largest / smallest > LINEAR_RANGE {
        let x = (smallest / 1.3..largest * 1.3).log_scale();
        draw_bands(builder.build_cartesian_2d(x, y)?, table, bands)?;
    } else {
        let x = 0.0..(largest * 1.05).max(f64::MIN_POSITIVE);
        draw_bands(builder.build_cartesian_2d(x, y)?, table, bands)?;
    }

    let style = FONT
        .into_text_style(root)
        .pos(Pos::new(HPos::Right, VPos::Center));
    let mut top = 0;
    for (row, band) in table.rows.iter().zip(bands) {
        let at = (LABELS as i32 - 8, (top + band / 2) as i32);
        names.draw(&Text::new(row.case.to_owned(), at, style.clone()))?;
        top += band;
    }
    root.present()?;
    Ok(())
}

fn draw_legend(area: &Root<'_>, table: &Table<'_>) -> Drawn {
    let title = format!("{}: {}, {}", table.bench, table.metric, table.unit);
    let bold = FONT.into_font().style(FontStyle::Bold);
    area.draw(&Text::new(title, (MARGIN as i32, 6), bold))?;
    for (index, system) in table.systems.iter().enumerate() {
        let y = (LINE_HEIGHT * (index as u32 + 1) + MARGIN / 2 + 6) as i32;
        area.draw(&dot(index, (MARGIN as i32 + 5, y)))?;
        let style = FONT
            .into_text_style(area)
            .pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(
            (*system).to_owned(),
            (MARGIN as i32 + 16, y),
            style,
        ))?;
    }
    Ok(())
}

fn draw_bands<'a, X>(
    mut chart: ChartContext<
        'a,
        SVGBackend<'_>,
        Cartesian2d<X, plotters::coord::types::RangedCoordf64>,
    >,
    table: &Table<'_>,
    bands: &[u32],
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(8)
        .x_label_formatter(&|value| number(*value))
        .x_label_style(FONT)
        .light_line_style(WHITE)
        .draw()?;
    let right = chart.x_range().end;
    let mut top = 0.0;
    for (index, (row, &band)) in table.rows.iter().zip(bands).enumerate() {
        let band = f64::from(band);
        if index % 2 == 1 {
            let left = chart.x_range().start;
            let corners = [(left, top), (right, top + band)];
            let shade = RGBColor(0, 0, 0).mix(0.05).filled();
            chart.draw_series([Rectangle::new(corners, shade)])?;
        }
        for (system, record) in row.records.iter().enumerate() {
            let Some(record) = record else { continue };
            let share = (system as f64 + 0.5) / row.records.len() as f64;
            draw_record(
                &mut chart,
                record,
                top + 5.0 + (band - 10.0) * share,
                system,
            )?;
        }
        top += band;
    }
    Ok(())
}

fn draw_record<X>(
    chart: &mut ChartContext<
        '_,
        SVGBackend<'_>,
        Cartesian2d<X, plotters::coord::types::RangedCoordf64>,
    >,
    record: &Record,
    y: f64,
    system: usize,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
{
    let line = PathElement::new(
        vec![(record.min, y), (record.max, y)],
        colour(system).stroke_width(2),
    );
    chart.draw_series([line])?;
    chart.draw_series([dot(system, (record.median, y))])?;
    Ok(())
}

fn colour(system: usize) -> RGBColor {
    COLOURS[system % COLOURS.len()]
}

/// A system's dot: a ring where the colours begin again.
fn dot<C>(system: usize, at: C) -> Circle<C, u32> {
    let colour = colour(system);
    let style = if system < COLOURS.len() {
        colour.filled()
    } else {
        colour.stroke_width(2)
    };
    Circle::new(at, 4, style)
}

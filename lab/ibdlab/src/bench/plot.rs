//! Packets per second by load, as a picture.

use std::path::Path;

use anyhow::{Result, anyhow};
use indicatif::HumanCount;
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, IntoLogRange as _, RGBColor,
    Rectangle, SVGBackend, Text, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{IntoTextStyle as _, TextStyle};

use super::report::Report;
use super::rows::Row;
use super::traffic::Way;

const WIDTH: u32 = 960;
/// Pixels of a load: two bars and a gap.
const LOAD_HEIGHT: u32 = 34;
/// Pixels above and below the bars: title and scale.
const FRAME_HEIGHT: u32 = 110;
/// Pixels for the names of the loads.
const NAME_WIDTH: u32 = 250;
/// The driver's own and, in turn with it, another.
const COLOURS: [RGBColor; 2] = [RGBColor(9, 105, 218), RGBColor(140, 149, 159)];
const INK: RGBColor = RGBColor(31, 35, 40);
/// Packets per second that the scale begins at.
const LEAST: f64 = 100.0;

/// Writes `bench.svg`: a bar for each driver and load without a delay of the subnet administrator.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    let file = directory.join("bench.svg");
    draw(report, &file).map_err(|error| anyhow!("{}: {error}", file.display()))
}

/// Where a bar is: its middle in units of loads from the bottom, and the half of its thickness.
fn place(load: usize, loads: usize, driver: usize, drivers: usize) -> (f64, f64) {
    let half = 0.38 / drivers as f64;
    let top = (loads - load) as f64 - 0.12;
    (top - half * (2 * driver + 1) as f64, half)
}

fn draw(report: &Report, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.sa_delay_ns == 0).collect();
    let drivers = distinct(rows.iter().map(|row| row.driver.clone()));
    let loads = distinct(rows.iter().map(|row| name(row)));
    let most = rows.iter().map(|row| row.packets_per_second).fold(10.0 * LEAST, f64::max);
    let root =
        SVGBackend::new(file, (WIDTH, FRAME_HEIGHT + LOAD_HEIGHT * loads.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("packets per second, counted at the receiver", ("sans-serif", 18).into_font().color(&INK))
        .margin(12)
        .margin_right(70)
        .x_label_area_size(30)
        .y_label_area_size(NAME_WIDTH)
        .build_cartesian_2d((LEAST..most).log_scale(), 0.0..loads.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .light_line_style(WHITE)
        .x_label_formatter(&|rate| HumanCount(*rate as u64).to_string())
        .label_style(("sans-serif", 12).into_font().color(&INK))
        .draw()?;
    for row in &rows {
        let position = |list: &[String], what: &str| list.iter().position(|known| known == what).unwrap_or(0);
        let driver = position(&drivers, &row.driver);
        let (middle, half) = place(position(&loads, &name(row)), loads.len(), driver, drivers.len());
        let (rate, colour) = (row.packets_per_second.max(LEAST), COLOURS[driver % COLOURS.len()]);
        let corners = [(LEAST, middle - half), (rate, middle + half)];
        chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        let (x, y) = chart.backend_coord(&(rate, middle));
        write_at(&root, &HumanCount(row.packets_per_second as u64).to_string(), (x + 6, y), HPos::Left, 11)?;
    }
    for (n, load) in loads.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(LEAST, (loads.len() - n) as f64 - 0.5));
        write_at(&root, load, (x - 10, y), HPos::Right, 13)?;
    }
    for (n, driver) in drivers.iter().enumerate() {
        let (x, y) = (16 + 70 * n as i32, 24);
        root.draw(&Rectangle::new([(x, y - 6), (x + 12, y + 6)], COLOURS[n % COLOURS.len()].filled()))?;
        write_at(&root, driver, (x + 18, y), HPos::Left, 13)?;
    }
    root.present()?;
    Ok(())
}

/// A line of text at a pixel, which is in the middle of its height.
fn write_at(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    text: &str,
    at: (i32, i32),
    side: HPos,
    size: i32,
) -> Result<(), Box<dyn std::error::Error>> {
    let style: TextStyle<'_> = ("sans-serif", size).with_color(INK).into_text_style(root);
    root.draw(&Text::new(text.to_owned(), at, style.pos(Pos::new(side, VPos::Center))))?;
    Ok(())
}

/// Each name once, in the order of its first appearance.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

fn name(row: &Row) -> String {
    let way = match row.load.way {
        Way::Transmit => "sent",
        Way::Receive => "received",
    };
    let several = |n: usize, what: &str| {
        if n > 1 { format!(", {} {what}", HumanCount(n as u64)) } else { String::new() }
    };
    let (to, flows) = (several(row.load.addresses, "peers"), several(row.load.flows, "flows"));
    format!("{} bytes {way}{to}{flows}", row.load.len)
}

//! Packets per second by load, as a picture.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::{
    BLUE, ChartBuilder, Color as _, IntoDrawingArea as _, IntoSegmentedCoord as _, RED, RGBColor, Rectangle,
    SVGBackend, SegmentValue, WHITE,
};

use super::report::Report;
use super::rows::Row;
use super::traffic::Way;

const COLOURS: [RGBColor; 2] = [BLUE, RED];

/// Writes `bench.svg`: a bar for each driver and load without a delay of the subnet administrator.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    let file = directory.join("bench.svg");
    draw(report, &file).map_err(|error| anyhow!("{}: {error}", file.display()))
}

fn draw(report: &Report, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.sa_delay_ns == 0).collect();
    let drivers = drivers(&rows);
    let mut loads: Vec<String> = Vec::new();
    for row in &rows {
        let name = name(row);
        if !loads.contains(&name) {
            loads.push(name);
        }
    }
    let most = rows.iter().map(|row| row.packets_per_second / 1e6).fold(0.1, f64::max);
    let root = SVGBackend::new(file, (1100, 520)).into_drawing_area();
    root.fill(&WHITE)?;
    let places = loads.len() as i32;
    let mut chart = ChartBuilder::on(&root)
        .caption("packets per second, counted at the receiver", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(110)
        .y_label_area_size(60)
        .build_cartesian_2d((0..places - 1).into_segmented(), 0.0..most * 1.1)?;
    let label = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(at) => loads.get(*at as usize).cloned().unwrap_or_default(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_desc("million packets per second")
        .x_labels(loads.len())
        .x_label_formatter(&label)
        .x_label_style(
            plotters::style::IntoTextStyle::into_text_style(("sans-serif", 11), &root)
                .transform(plotters::style::FontTransform::Rotate90),
        )
        .draw()?;
    for (n, driver) in drivers.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let mine = rows.iter().filter(|row| row.driver == *driver);
        let bars = mine.filter_map(|row| {
            let at = loads.iter().position(|load| *load == name(row))? as i32;
            let mut bar = Rectangle::new(
                [(SegmentValue::Exact(at), 0.0), (SegmentValue::Exact(at + 1), row.packets_per_second / 1e6)],
                colour.mix(0.8).filled(),
            );
            let (left, right) = if n == 0 { (4, 22) } else { (22, 4) };
            bar.set_margin(0, 0, left, right);
            Some(bar)
        });
        chart
            .draw_series(bars)?
            .label(driver.clone())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.mix(0.8).filled()));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw()?;
    root.present()?;
    Ok(())
}

fn drivers(rows: &[&Row]) -> Vec<String> {
    let mut drivers: Vec<String> = Vec::new();
    for row in rows {
        if !drivers.contains(&row.driver) {
            drivers.push(row.driver.clone());
        }
    }
    drivers
}

fn name(row: &Row) -> String {
    let way = match row.load.way {
        Way::Transmit => "tx",
        Way::Receive => "rx",
    };
    let flows = if row.load.flows > 1 { format!(" {} flows", row.load.flows) } else { String::new() };
    let chain = if row.load.chain == 1 { " alone" } else { "" };
    format!("{way} {} B, {} addr{flows}{chain}", row.load.len, row.load.addresses)
}

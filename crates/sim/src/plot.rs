//! Figures as SVG: lines with axes, units, ticks and a legend.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 540.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 62.0;
/// Colours that stay apart for most eyes (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#000000", "#e69f00", "#0072b2", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c8c00"];

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// Logarithmic; values that are not above 0 are left out.
    pub log: bool,
}

/// A line, or points.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
    /// Whether the points are joined.
    pub line: bool,
}

/// A figure.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its title.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From below to above.
    pub y: Axis,
    /// What is in it.
    pub series: Vec<Series>,
}

#[derive(Debug, Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Self {
        let usable = values.filter(|v| v.is_finite() && (!log || *v > 0.0));
        let (low, high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = match (low <= high, log) {
            (false, _) => (0.1, 1.0),
            (true, true) => (
                10_f64.powf(low.log10().floor()),
                10_f64.powf(high.log10().ceil().max(low.log10().floor() + 1.0)),
            ),
            (true, false) => (low.min(0.0), if high > low.min(0.0) { high * 1.05 } else { 1.0 }),
        };
        Self { low, high, log, from, to }
    }

    fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        let map = |v: f64| if self.log { v.log10() } else { v };
        let part = (map(value) - map(self.low)) / (map(self.high) - map(self.low));
        Some(self.from + part * (self.to - self.from))
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (low, high) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            return (low..=high).map(|e| 10_f64.powi(e)).collect();
        }
        let rough = (self.high - self.low) / 6.0;
        let unit = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

fn number(value: f64) -> String {
    let text = if value != 0.0 && (value.abs() >= 1e6 || value.abs() < 1e-4) {
        format!("{value:e}")
    } else {
        format!("{value:.4}")
    };
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Figure {
    /// The figure as an SVG document. The same figure gives the same bytes.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let x = Scale::of(points().map(|p| p.0), self.x.log, LEFT, WIDTH - RIGHT);
        let y = Scale::of(points().map(|p| p.1), self.y.log, HEIGHT - BOTTOM, TOP);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let mut add = |line: String| {
            out.push_str(&line);
            out.push('\n');
        };
        add(format!("<text x=\"{LEFT}\" y=\"26\" font-size=\"15\">{}</text>", escaped(&self.title)));
        self.axes(&x, &y, &mut add);
        for (i, series) in self.series.iter().enumerate() {
            Self::draw(series, i, &x, &y, &mut add);
        }
        out.push_str("</svg>\n");
        out
    }

    fn axes(&self, x: &Scale, y: &Scale, add: &mut impl FnMut(String)) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in x.ticks() {
            let Some(at) = x.place(tick) else { continue };
            add(format!(
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#e4e4e4\"/>"
            ));
            add(format!(
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                number(tick)
            ));
        }
        for tick in y.ticks() {
            let Some(at) = y.place(tick) else { continue };
            add(format!(
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>"
            ));
            add(format!(
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                number(tick)
            ));
        }
        add(format!(
            "<path d=\"M{LEFT} {TOP} V{bottom} H{right}\" fill=\"none\" stroke=\"black\"/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 18.0,
            escaped(&self.x.label),
            f64::midpoint(TOP, bottom),
            escaped(&self.y.label),
        ));
    }

    fn draw(series: &Series, index: usize, x: &Scale, y: &Scale, add: &mut impl FnMut(String)) {
        let colour = COLOURS[index % COLOURS.len()];
        let placed: Vec<(f64, f64)> =
            series.points.iter().filter_map(|p| Some((x.place(p.0)?, y.place(p.1)?))).collect();
        if series.line && placed.len() > 1 {
            let mut path = String::new();
            for (i, (px, py)) in placed.iter().enumerate() {
                let _ = write!(path, "{}{px:.1} {py:.1}", if i == 0 { "M" } else { " L" });
            }
            add(format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>"));
        }
        let mark = |px: f64, py: f64| {
            if series.line {
                format!("<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\" fill=\"{colour}\"/>")
            } else {
                format!(
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                    px - 4.0,
                    py - 4.0
                )
            }
        };
        placed.iter().for_each(|&(px, py)| add(mark(px, py)));
        let (lx, ly) = (WIDTH - RIGHT + 18.0, TOP + 14.0 + index as f64 * 20.0);
        if series.line {
            add(format!(
                "<line x1=\"{lx}\" y1=\"{ly}\" x2=\"{}\" y2=\"{ly}\" stroke=\"{colour}\" stroke-width=\"1.8\"/>",
                lx + 22.0
            ));
        }
        add(mark(lx + 11.0, ly));
        add(format!("<text x=\"{}\" y=\"{}\">{}</text>", lx + 30.0, ly + 4.0, escaped(&series.name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_axes_units_and_legend() {
        let axis = |label: &str, log| Axis { label: label.to_owned(), log };
        let points = vec![(0.001, 1.0), (1.0, 40.0), (0.0, 3.0), (f64::NAN, 2.0)];
        let series = vec![Series { name: "a < b".to_owned(), points, line: true }];
        let svg = Figure { title: "t".to_owned(), x: axis("ms", true), y: axis("MB/s", false), series }.svg();
        assert!(
            svg.contains("a &lt; b")
                && svg.contains(">ms<")
                && svg.contains(">MB/s<")
                && svg.contains(">0.01<")
        );
        assert_eq!(svg.matches("<circle").count(), 3, "two points and the legend: 0 has no logarithm");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn an_empty_figure_is_a_figure() {
        let axis = || Axis { label: "x".to_owned(), log: true };
        let svg = Figure { title: String::new(), x: axis(), y: axis(), series: Vec::new() }.svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }
}

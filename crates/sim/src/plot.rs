//! Figures as SVG: lines with axes, units, ticks and a legend; or [rows](Rows). Every series has a
//! colour, a mark and a dash pattern of its own, so that neither print nor eyes need the colour.

mod rows;

pub use rows::{Column, Marks, Panel, Rows, grouped};
use std::fmt::Write;

const WIDTH: f64 = 890.0;
/// At least; a long legend makes it more.
const HEIGHT: f64 = 540.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 230.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 62.0;
/// Colours that stay apart for most eyes (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#000000", "#e69f00", "#0072b2", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c8c00"];

/// Lengths of strokes and gaps; the first is a whole line.
const DASHES: [&str; 5] = ["", "8 4", "2 3", "10 3 2 3", "5 2"];
/// From one name of the legend to the next.
const ROW: f64 = 20.0;
/// Characters of a name in the legend, and of the title, at most: what has room.
const NAME: usize = 24;
const TITLE: usize = 96;
/// A logarithmic axis where the values span more than this.
const DECADES: f64 = 30.0;

/// Shapes of marks. They are as many as have no common divisor with the colours, so that a pair
/// comes again after 56 series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Circle,
    Square,
    Up,
    Diamond,
    Cross,
    Plus,
    Down,
}

const MARKS: [Mark; 7] =
    [Mark::Circle, Mark::Square, Mark::Up, Mark::Diamond, Mark::Cross, Mark::Plus, Mark::Down];

impl Mark {
    /// Its outline around a point.
    fn path(self, x: f64, y: f64) -> String {
        let r = 4.2;
        let (left, right, up, down) = (x - r, x + r, y - r, y + r);
        match self {
            Self::Circle => {
                format!("M{left:.1} {y:.1} a{r} {r} 0 1 0 {0:.1} 0 a{r} {r} 0 1 0 -{0:.1} 0 Z", 2.0 * r)
            }
            Self::Square => format!("M{left:.1} {up:.1} H{right:.1} V{down:.1} H{left:.1} Z"),
            Self::Up => format!("M{left:.1} {down:.1} L{x:.1} {up:.1} L{right:.1} {down:.1} Z"),
            Self::Diamond => {
                format!("M{x:.1} {up:.1} L{right:.1} {y:.1} L{x:.1} {down:.1} L{left:.1} {y:.1} Z")
            }
            Self::Cross => {
                format!("M{left:.1} {up:.1} L{right:.1} {down:.1} M{left:.1} {down:.1} L{right:.1} {up:.1}")
            }
            Self::Plus => format!("M{left:.1} {y:.1} H{right:.1} M{x:.1} {up:.1} V{down:.1}"),
            Self::Down => format!("M{left:.1} {up:.1} L{x:.1} {down:.1} L{right:.1} {up:.1} Z"),
        }
    }
}

/// Division of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// Logarithmic; values that are not above 0 are left out, and the figure says how many.
    Log,
    /// Logarithmic where the values above 0 span more than a factor of 30, or else linear.
    ByValues,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Quantity on the axis, with its unit.
    pub label: String,
    /// Its division.
    pub division: Division,
}

impl Axis {
    fn is_log(&self, values: impl Iterator<Item = f64>) -> bool {
        let above = values.filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = above.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        self.division == Division::Log || high > DECADES * low
    }
}

/// A line, or points.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
    /// True if the points are joined.
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
    /// The series of the figure.
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

    /// Values with a label.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (low, high) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            let step = ((high - low) / 10 + 1) as usize;
            return (low..=high).step_by(step).map(|e| 10_f64.powi(e)).collect();
        }
        let rough = (self.high - self.low) / 6.0;
        let unit = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    /// Places of the lines between those with a label: 2 to 9 times the power of ten before.
    fn between(&self) -> Vec<f64> {
        if !self.log {
            return Vec::new();
        }
        let inside = |v: &f64| *v < self.high;
        let all = self.ticks().into_iter().flat_map(|tick| (2..10).map(move |m| f64::from(m) * tick));
        all.filter(inside).filter_map(|v| self.place(v)).collect()
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
    // XML has no control characters, not even escaped, nor the two last of the first plane.
    let known = |c: char| if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c };
    let text: String = text.chars().map(known).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// At most so many characters of a text, and a sign that there were more.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Collects the lines of a document.
struct Page {
    text: String,
    height: f64,
}

impl Page {
    fn add(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn bottom(&self) -> f64 {
        self.height - BOTTOM
    }
}

impl Figure {
    /// The figure as an SVG document. The same figure gives the same bytes.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let height = HEIGHT.max(TOP + BOTTOM + ROW * (self.series.len() as f64 + 1.0));
        let mut page = Page { text: String::new(), height };
        let (xs, ys) = (|| points().map(|p| p.0), || points().map(|p| p.1));
        let x = Scale::of(xs(), self.x.is_log(xs()), LEFT, WIDTH - RIGHT);
        let y = Scale::of(ys(), self.y.is_log(ys()), page.bottom(), TOP);
        page.add(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
        ));
        let title = escaped(&short(&self.title, TITLE));
        page.add(&format!("<text x=\"{LEFT}\" y=\"26\" font-size=\"15\">{title}</text>"));
        self.axes(&x, &y, &mut page);
        for (i, series) in self.series.iter().enumerate() {
            Self::draw(series, i, &x, &y, &mut page);
        }
        let out = points().filter(|p| x.place(p.0).is_none() || y.place(p.1).is_none()).count();
        if out > 0 {
            page.add(&format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"11\">points left out, as 0 has no logarithm: {out}</text>",
                WIDTH - 10.0,
                height - 18.0
            ));
        }
        page.add("</svg>");
        page.text
    }

    fn axes(&self, x: &Scale, y: &Scale, page: &mut Page) {
        let (bottom, right) = (page.bottom(), WIDTH - RIGHT);
        let upright = |at: f64, colour: &str| {
            format!("<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"{colour}\"/>")
        };
        let level = |at: f64, colour: &str| {
            format!("<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"{colour}\"/>")
        };
        x.between().into_iter().for_each(|at| page.add(&upright(at, "#f4f4f4")));
        y.between().into_iter().for_each(|at| page.add(&level(at, "#f4f4f4")));
        for (tick, at) in x.ticks().into_iter().filter_map(|tick| Some((tick, x.place(tick)?))) {
            page.add(&upright(at, "#d8d8d8"));
            page.add(&format!(
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                number(tick)
            ));
        }
        for (tick, at) in y.ticks().into_iter().filter_map(|tick| Some((tick, y.place(tick)?))) {
            page.add(&level(at, "#d8d8d8"));
            page.add(&format!(
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                number(tick)
            ));
        }
        page.add(&format!(
            "<path d=\"M{LEFT} {TOP} V{bottom} H{right}\" fill=\"none\" stroke=\"black\"/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            page.height - 18.0,
            escaped(&self.x.label),
            f64::midpoint(TOP, bottom),
            escaped(&self.y.label),
        ));
    }

    fn draw(series: &Series, index: usize, x: &Scale, y: &Scale, page: &mut Page) {
        let colour = COLOURS[index % COLOURS.len()];
        let shape = MARKS[index % MARKS.len()];
        let dash = match DASHES[index % DASHES.len()] {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        let placed: Vec<(f64, f64)> =
            series.points.iter().filter_map(|p| Some((x.place(p.0)?, y.place(p.1)?))).collect();
        if series.line && placed.len() > 1 {
            let mut path = String::new();
            for (i, (px, py)) in placed.iter().enumerate() {
                let _ = write!(path, "{}{px:.1} {py:.1}", if i == 0 { "M" } else { " L" });
            }
            page.add(&format!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{dash}/>"
            ));
        }
        // What lies below shows through marks that stand alone.
        let fill = if series.line { colour } else { "none" };
        let mark = |px: f64, py: f64| {
            format!(
                "<path class=\"mark\" d=\"{}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.8\"/>",
                shape.path(px, py)
            )
        };
        placed.iter().for_each(|&(px, py)| page.add(&mark(px, py)));
        let (lx, ly) = (WIDTH - RIGHT + 18.0, TOP + 14.0 + index as f64 * ROW);
        if series.line {
            page.add(&format!(
                "<line x1=\"{lx}\" y1=\"{ly}\" x2=\"{}\" y2=\"{ly}\" stroke=\"{colour}\" stroke-width=\"1.8\"{dash}/>",
                lx + 30.0
            ));
        }
        page.add(&mark(lx + 15.0, ly));
        let name = escaped(&short(&series.name, NAME));
        page.add(&format!("<text class=\"name\" x=\"{}\" y=\"{}\">{name}</text>", lx + 38.0, ly + 4.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(label: &str, division: Division) -> Axis {
        Axis { label: label.to_owned(), division }
    }

    fn figure(series: Vec<Series>) -> String {
        let title = "t".repeat(300);
        Figure { title, x: axis("ms", Division::Log), y: axis("MB/s", Division::ByValues), series }.svg()
    }

    #[test]
    fn a_figure_has_axes_units_and_legend() {
        let points = vec![(0.001, 1.0), (1.0, 25.0), (0.0, 3.0), (f64::NAN, 2.0)];
        let svg = figure(vec![Series { name: "a < b".to_owned(), points, line: true }]);
        assert!(
            svg.contains("a &lt; b")
                && svg.contains(">ms<")
                && svg.contains(">MB/s<")
                && svg.contains(">0.01<")
                && svg.contains(">20<"),
            "a linear y axis: a factor of 25"
        );
        assert_eq!(svg.matches("\"mark\"").count(), 3, "two points and the legend: 0 has no logarithm");
        assert!(svg.contains("left out, as 0 has no logarithm: 2"));
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains(&"t".repeat(97)));
    }

    #[test]
    fn decades_get_a_logarithmic_axis() {
        let points = vec![(0.001, 0.2), (1.0, 80.0)];
        let svg = figure(vec![Series { name: "s".to_owned(), points, line: true }]);
        assert!(svg.contains(">0.1<") && svg.contains(">100<"), "{svg}");
    }

    /// The values of an attribute of all elements of a class.
    fn attribute(svg: &str, class: &str, name: &str) -> Vec<String> {
        let class = format!("class=\"{class}\"");
        let value =
            |line: &str| line.split(&format!(" {name}=\"")).nth(1)?.split('"').next().map(str::to_owned);
        svg.lines().filter(|l| l.contains(&class)).filter_map(value).collect()
    }

    #[test]
    fn forty_series_are_told_apart_and_their_names_do_not_overlap() {
        let all = (0..40).map(|i| {
            let points = vec![(1.0, 1.0 + f64::from(i)), (10.0, 2.0)];
            Series { name: format!("a series with a name that is too long {i}"), points, line: i % 2 == 0 }
        });
        let svg = figure(all.collect());
        let (names, height) = (attribute(&svg, "name", "y"), HEIGHT.max(TOP + BOTTOM + 41.0 * ROW));
        let ys: Vec<f64> = names.iter().filter_map(|y| y.parse().ok()).collect();
        assert_eq!(ys.len(), 40);
        assert!(ys.windows(2).all(|w| w[1] - w[0] >= 13.0), "the letters are 13 high");
        assert!(
            ys.iter().all(|y| *y < height - BOTTOM)
                && svg.contains(&format!("viewBox=\"0 0 {WIDTH} {height}\""))
        );
        // Right of the curves, and letters of 8 on average end within the figure.
        let xs: Vec<f64> = attribute(&svg, "name", "x").iter().filter_map(|x| x.parse().ok()).collect();
        assert!(xs.iter().all(|x| *x > WIDTH - RIGHT && x + 8.0 * NAME as f64 <= WIDTH + 20.0));
        // Shape and colour of the marks in the legend, and of no two series both.
        let mut looks: Vec<_> =
            (0..40).map(|i| (COLOURS[i % COLOURS.len()], MARKS[i % MARKS.len()] as u8)).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), 40);
    }

    #[test]
    fn a_title_with_characters_that_xml_lacks_is_still_xml() {
        assert_eq!(escaped("a\u{1}\u{1b}[31m\u{ffff}&"), "a\u{fffd}\u{fffd}[31m\u{fffd}&amp;");
    }

    #[test]
    fn an_empty_figure_is_a_figure() {
        let svg = figure(Vec::new());
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }
}

//! A figure with a row for each thing that is compared, and panels side by side. Marks in different
//! rows cannot hide each other, and each value is printed beside them.

use super::{COLOURS, Page, Scale, TITLE, escaped, short};

const WIDTH: f64 = 890.0;
const TOP: f64 = 92.0;
/// From one row to the next.
const ROW: f64 = 26.0;
/// Room for the names of rows; letters of 13 are 8 wide on average.
const NAMES: f64 = 96.0;
/// Room for a column of printed values.
const COLUMN: f64 = 70.0;
/// Between panels.
const GAP: f64 = 26.0;
/// Below the rows: ticks, label, then the caption.
const BOTTOM: f64 = 62.0;
const CAPTION_LINE: f64 = 16.0;
/// Characters of a line of the caption, at most.
const CAPTION: usize = 128;

/// One set of values of a panel: a mark in each row.
#[derive(Debug, Clone)]
pub struct Marks {
    /// Name of the values, if the panel has several sets.
    pub name: String,
    /// One for each row.
    pub values: Vec<f64>,
}

/// A column of printed values.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its head.
    pub head: String,
    /// One for each row.
    pub cells: Vec<String>,
}

/// A panel: an axis, marks, and the values in print.
#[derive(Debug, Clone)]
pub struct Panel {
    /// Quantity on the axis, with its unit. The axis is logarithmic if the values above 0 span more
    /// than a factor of 30.
    pub label: String,
    /// The marks: the first are filled, others are rings.
    pub marks: Vec<Marks>,
    /// For each row the least and the most value, if they are known.
    pub ranges: Vec<(f64, f64)>,
    /// To the right of its axis.
    pub columns: Vec<Column>,
}

/// A figure of rows.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Its title.
    pub title: String,
    /// The names of the rows, from above.
    pub names: Vec<String>,
    /// From left to right.
    pub panels: Vec<Panel>,
    /// Settings on which the figure depends.
    pub caption: String,
}

/// A number with a comma between groups of three digits.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let ends = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.char_indices().fold(String::new(), |text, (at, digit)| {
        if ends(at) { format!("{text},{digit}") } else { format!("{text}{digit}") }
    })
}

/// A text in lines of so many characters at most, unless a word has more.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match all.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => all.push(word.to_owned()),
        }
    }
    all
}

/// An axis from a round value at or below the least to one at or above the most. It begins at 0 if
/// the least is below a fifth of the most: marks, unlike bars, need no 0.
fn scale(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Scale {
    let above = values.clone().filter(|v| v.is_finite() && *v > 0.0);
    let (low, high) = above.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    if high > super::DECADES * low && !values.clone().any(|v| v <= 0.0) {
        return Scale::of(values, true, from, to);
    }
    let all = values.filter(|v| v.is_finite());
    let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return Scale { low: 0.0, high: 1.0, log: false, from, to };
    }
    let low = if low > 0.0 && 5.0 * low < high { 0.0 } else { low };
    let span = if high > low { high - low } else { high.abs().max(1.0) * 0.2 };
    let rough = span / 4.0;
    let unit = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|s| *s >= rough).unwrap_or(rough);
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    Scale { low: first * step, high: last.max(first + 1.0) * step, log: false, from, to }
}

/// The label of a tick; a power of ten on a logarithmic axis.
fn tick_label(value: f64, log: bool) -> String {
    if log {
        let raised = |c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(char::to_digit(c, 10)? as usize);
        let exponent = value.log10().round() as i64;
        let digits: String = exponent.unsigned_abs().to_string().chars().filter_map(raised).collect();
        format!("10{}{digits}", if exponent < 0 { "⁻" } else { "" })
    } else if value >= 1_000.0 && value.fract() == 0.0 && value < 1e15 {
        grouped(value as u64)
    } else {
        super::number(value)
    }
}

impl Rows {
    /// The figure as an SVG document. The same figure gives the same bytes.
    #[must_use]
    pub fn svg(&self) -> String {
        let caption = lines(&self.caption, CAPTION);
        let bottom = TOP + ROW * self.names.len().max(1) as f64;
        let height = bottom + BOTTOM + CAPTION_LINE * caption.len() as f64;
        let mut page = Page { text: String::new(), height };
        page.add(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
        ));
        page.add(&text(16.0, 28.0, "start", "15", &short(&self.title, TITLE)));
        for (row, name) in self.names.iter().enumerate() {
            page.add(&text(16.0, middle(row) + 4.5, "start", "13", &short(name, 11)));
        }
        let columns: usize = self.panels.iter().map(|panel| panel.columns.len()).sum();
        let panels = self.panels.len().max(1) as f64;
        let taken = NAMES + COLUMN * columns as f64 + GAP * (panels - 1.0) + 48.0;
        let axis = ((WIDTH - taken) / panels).max(80.0);
        let mut left = 16.0 + NAMES;
        for panel in &self.panels {
            panel.draw(left, left + axis, bottom, &mut page);
            left += axis + COLUMN * panel.columns.len() as f64 + GAP;
        }
        for (n, line) in caption.iter().enumerate() {
            let at = bottom + BOTTOM + CAPTION_LINE * n as f64;
            page.add(&text(16.0, at, "start", "11.5", line));
        }
        page.add("</svg>");
        page.text
    }
}

/// The middle of a row.
fn middle(row: usize) -> f64 {
    TOP + ROW * (row as f64 + 0.5)
}

fn text(x: f64, y: f64, anchor: &str, size: &str, content: &str) -> String {
    let content = escaped(content);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{content}</text>")
}

fn circle(x: f64, y: f64, set: usize) -> String {
    let colour = COLOURS[if set == 0 { 2 } else { 4 }];
    let (r, fill) = if set == 0 { ("4.2", colour) } else { ("6.2", "none") };
    format!(
        "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" fill=\"{fill}\" stroke=\"{colour}\" \
         stroke-width=\"1.8\"/>"
    )
}

impl Panel {
    fn draw(&self, left: f64, right: f64, bottom: f64, page: &mut Page) {
        let values = self.marks.iter().flat_map(|marks| marks.values.iter().copied());
        let ends = self.ranges.iter().flat_map(|(least, most)| [*least, *most]);
        // Marks at the ends stay within the frame.
        let x = scale(values.chain(ends), left + 8.0, right - 8.0);
        self.frame(&x, (left, right, bottom), page);
        for (row, (least, most)) in self.ranges.iter().enumerate().filter(|(_, (least, most))| least < most) {
            if let (Some(from), Some(to)) = (x.place(*least), x.place(*most)) {
                let (y, colour) = (middle(row), COLOURS[2]);
                page.add(&format!(
                    "<line x1=\"{from:.1}\" y1=\"{y}\" x2=\"{to:.1}\" y2=\"{y}\" stroke=\"{colour}\" \
                     stroke-width=\"1.8\"/>"
                ));
            }
        }
        for (set, marks) in self.marks.iter().enumerate() {
            for (row, value) in marks.values.iter().enumerate() {
                if let Some(at) = x.place(*value) {
                    page.add(&circle(at, middle(row), set));
                }
            }
        }
        // The sets in words, above the panel, each behind its mark.
        let mut at = left + 8.0;
        for (set, marks) in self.marks.iter().enumerate().filter(|_| self.marks.len() > 1) {
            page.add(&circle(at, TOP - 38.0, set));
            page.add(&text(at + 11.0, TOP - 34.0, "start", "11.5", &marks.name));
            at += 26.0 + 6.6 * marks.name.chars().count() as f64;
        }
        for (n, column) in self.columns.iter().enumerate() {
            let at = right + COLUMN * (n as f64 + 1.0);
            page.add(&text(at, TOP - 10.0, "end", "11.5", &column.head));
            for (row, cell) in column.cells.iter().enumerate() {
                page.add(&text(at, middle(row) + 4.5, "end", "12", cell));
            }
        }
    }

    fn frame(&self, x: &Scale, (left, right, bottom): (f64, f64, f64), page: &mut Page) {
        let line = |x1: f64, y1: f64, x2: f64, y2: f64, colour: &str| {
            format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>")
        };
        let rows = ((bottom - TOP) / ROW).round() as usize;
        for row in 0..rows {
            page.add(&line(left, middle(row), right, middle(row), "#ececec"));
        }
        let ticks: Vec<(f64, f64)> =
            x.ticks().into_iter().filter_map(|tick| Some((tick, x.place(tick)?))).collect();
        let mut free = left - 20.0;
        for (tick, at) in ticks {
            page.add(&line(at, TOP, at, bottom, "#d8d8d8"));
            let label = tick_label(tick, x.log);
            let half = 3.4 * label.chars().count() as f64;
            // A label that would touch the one before is left out; its line stays.
            if at - half > free + 6.0 {
                page.add(&text(at, bottom + 17.0, "middle", "11.5", &label));
                free = at + half;
            }
        }
        page.add(&format!(
            "<path d=\"M{left:.1} {TOP} V{bottom:.1} H{right:.1} V{TOP} Z\" fill=\"none\" stroke=\"black\"/>"
        ));
        page.add(&text(f64::midpoint(left, right), bottom + 36.0, "middle", "12.5", &self.label));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[f64]) -> Rows {
        let marks = |name: &str, by: f64| Marks {
            name: name.to_owned(),
            values: values.iter().map(|value| value * by).collect(),
        };
        let cells = values.iter().map(|value| format!("{value}")).collect();
        Rows {
            title: "a < b".to_owned(),
            names: (0..values.len()).map(|n| format!("row {n}")).collect(),
            panels: vec![Panel {
                label: "time (us)".to_owned(),
                marks: vec![marks("published", 1.0), marks("here", 0.5)],
                ranges: Vec::new(),
                columns: vec![Column { head: "us".to_owned(), cells }],
            }],
            caption: "word ".repeat(60),
        }
    }

    #[test]
    fn digits_come_in_groups_of_three() {
        assert_eq!([0.01, 1.0, 1e12].map(|tick| tick_label(tick, true)), ["10⁻²", "10⁰", "10¹²"]);
        assert_eq!([0.5, 250.0, 1.5e6].map(|tick| tick_label(tick, false)), ["0.5", "250", "1,500,000"]);
        let all = [0, 999, 1_000, 25_403, 1_287_550].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "25,403", "1,287,550"]);
    }

    #[test]
    fn every_row_has_a_line_of_its_own_for_marks_name_and_values() {
        let svg = rows(&[223.1, 228.1, 228.1, 480.8]).svg();
        assert_eq!(svg.matches("\"mark\"").count(), 2 * 4 + 2, "and two that explain them");
        assert!(svg.contains("a &lt; b") && svg.contains(">row 3<") && svg.contains(">480.8<"));
        assert!(svg.contains(">time (us)<") && svg.contains(">published<") && !svg.contains("NaN"));
        let caption = svg.lines().filter(|line| line.contains(">word")).count();
        assert_eq!(caption, 3, "300 characters in lines of 128");
    }

    #[test]
    fn an_axis_begins_near_the_least_value_or_at_0_if_that_is_near() {
        let ends = |values: &[f64]| {
            let scale = scale(values.iter().copied(), 0.0, 1.0);
            (scale.low, scale.high, scale.log)
        };
        assert_eq!(ends(&[75.5, 480.8]), (0.0, 600.0, false));
        assert_eq!(ends(&[385.9, 700.0]), (300.0, 700.0, false));
        assert_eq!(ends(&[545.0, 628_924.0]), (100.0, 1e6, true));
        assert_eq!(ends(&[0.0, 628_924.0]), (0.0, 800_000.0, false), "0 has no logarithm");
        assert_eq!(ends(&[5.0, 5.0]), (5.0, 5.5, false));
        assert_eq!(ends(&[]), (0.0, 1.0, false));
    }

    #[test]
    fn an_empty_figure_is_a_figure() {
        let svg = rows(&[]).svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}

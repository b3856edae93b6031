//! The study: settings fitted on some of the published figures, the others predicted, and drives of
//! today.

use super::pass::{Method, Outcome, PlatformError, run};
use super::platform::Platform;
use super::published::{BRIEF, Contradiction, MEMORY_PER_BYTE, RUNS, Run, SLIDES, TRAFFIC, contradictions};
use serde::Serialize;

/// Largest error of a prediction of offload times and host memory.
const LIMIT: f64 = 0.10;
/// And of the host's time for nine drives.
const HOST_LIMIT: f64 = 0.20;

/// Values fitted on published figures.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Fits {
    /// Rate of an engine: on the offload time of three drives.
    pub engine: u64,
    /// Thread time for a stripe: on the host times of three and five drives.
    pub thread_per_stripe_ns: f64,
    /// Thread time for a segment: likewise.
    pub thread_per_segment_ns: f64,
    /// Host memory traffic for each byte checked by the host: on three and five drives.
    pub memory_per_byte: f64,
    /// Host memory traffic for each segment checked by drives: on three and five drives.
    pub memory_per_segment_offloaded: f64,
}

/// Basis of a figure of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// A setting was fitted on the published figure.
    Fitted,
    /// A published figure that is a setting.
    Given,
    /// The published figure was not used.
    Predicted,
    /// Not used either, and nothing is claimed.
    Reported,
}

/// A published figure beside the model's.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The brief or the slides.
    pub source: &'static str,
    /// Name of the figure, with its unit.
    pub figure: &'static str,
    /// The method.
    pub method: Method,
    /// Drives of the array.
    pub drives: u64,
    /// As published.
    pub published: f64,
    /// The model's.
    pub model: f64,
    /// By how much the model's is above the published one, as a share of it.
    pub error: f64,
    /// Its basis.
    pub basis: Basis,
    /// The largest error that is allowed, where one is.
    pub limit: Option<f64>,
    /// The model's figure is within the limit; `None` without a limit.
    pub met: Option<bool>,
    /// Reason for missing the limit.
    pub why: Option<&'static str>,
}

/// The same predictions with another assumption.
#[derive(Debug, Clone, Serialize)]
pub struct Variant {
    /// The changed assumption.
    pub change: &'static str,
    /// Rate of an engine, fitted anew.
    pub engine: u64,
    /// Errors of the offload times: three, five and nine drives of the brief, nine of the slides.
    pub offload_errors: [f64; 4],
    /// Errors of the host's times, likewise.
    pub host_errors: [f64; 4],
    /// Errors of the host's memory traffic, likewise.
    pub memory_errors: [f64; 4],
}

/// Drives of today: a number of drives, and each method that was asked for.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Drives of the array.
    pub drives: u64,
    /// Rate of an engine, bytes a second, above which drives are faster than the host: its rate
    /// divided among them.
    pub engine_to_match: f64,
    /// The methods.
    pub methods: Vec<Outcome>,
}

/// The study's result.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The machine of the published figures, with what was fitted.
    pub published_platform: Platform,
    /// The fitted values.
    pub fits: Fits,
    /// Published figures beside the model's.
    pub cells: Vec<Cell>,
    /// The model for each number of drives from 3 to 9, by the host and per stripe.
    pub curve: Vec<Outcome>,
    /// Results of other assumptions.
    pub variants: Vec<Variant>,
    /// Published figures that contradict each other.
    pub contradictions: Vec<Contradiction>,
    /// The machine of the rows below.
    pub modern_platform: Platform,
    /// Drives of today.
    pub modern: Vec<Row>,
}

/// Makes the study: the published figures, and arrays of `drives` drives on another machine.
///
/// # Errors
/// If that machine cannot check such an array.
pub fn study(modern: Platform, drives: &[u64], methods: &[Method]) -> Result<Report, PlatformError> {
    let published = Platform::published();
    let (platform, fits) = fit(&published)?;
    let mut curve = Vec::new();
    for count in 3..=9 {
        for method in [Method::Host, Method::Stripe] {
            curve.push(run(&platform, method, count)?);
        }
    }
    let mut rows = Vec::new();
    for &count in drives {
        let host = run(&modern, Method::Host, count)?;
        let engine_to_match = host.checked_per_s / count as f64;
        let mut found = Vec::new();
        for &method in methods {
            found.push(if method == Method::Host { host.clone() } else { run(&modern, method, count)? });
        }
        rows.push(Row { drives: count, engine_to_match, methods: found });
    }
    Ok(Report {
        cells: cells(&platform)?,
        variants: variants()?,
        contradictions: contradictions(),
        published_platform: platform,
        fits,
        curve,
        modern_platform: modern,
        modern: rows,
    })
}

/// Fits what the sources do not say.
fn fit(platform: &Platform) -> Result<(Platform, Fits), PlatformError> {
    let [three, five, ..] = RUNS;
    let stripes = platform.drive_bytes as f64 / platform.segment as f64;
    // One thread does the host's work: seconds = stripes x (stripe + drives x segment).
    let of = |run: Run| run.seconds[0] / stripes * 1e9;
    let thread_per_segment_ns = (of(five) - of(three)) / (five.drives - three.drives) as f64;
    let thread_per_stripe_ns = of(three) - three.drives as f64 * thread_per_segment_ns;
    let memory_per_byte = f64::midpoint(three.memory_per_byte(0), five.memory_per_byte(0));
    let offloaded = f64::midpoint(three.memory_per_byte(1), five.memory_per_byte(1));
    let memory_per_segment_offloaded = offloaded * platform.segment as f64;
    let mut fitted = Platform {
        thread_per_stripe_ns,
        thread_per_segment_ns,
        memory_per_byte,
        memory_per_segment_offloaded,
        ..platform.clone()
    };
    fitted.engine = engine(&fitted, three)?;
    let engine = fitted.engine;
    let fits = Fits {
        engine,
        thread_per_stripe_ns,
        thread_per_segment_ns,
        memory_per_byte,
        memory_per_segment_offloaded,
    };
    Ok((fitted, fits))
}

/// The engine with which a run takes the published time: the time falls with the rate, so halving
/// intervals finds it.
fn engine(platform: &Platform, of: Run) -> Result<u64, PlatformError> {
    let (mut low, mut high) = (100_000_000_u64, 20_000_000_000_u64);
    while high - low > 500_000 {
        let middle = u64::midpoint(low, high);
        let tried = Platform { engine: middle, ..platform.clone() };
        if run(&tried, Method::Stripe, of.drives)?.seconds > of.seconds[1] {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(high)
}

fn cell(
    run: Run,
    figure: &'static str,
    method: Method,
    values: [f64; 2],
    basis: Basis,
    limit: Option<f64>,
) -> Cell {
    let [published, model] = values;
    let error = model / published - 1.0;
    let met = limit.map(|limit| error.abs() <= limit);
    Cell {
        source: run.source,
        figure,
        method,
        drives: run.drives,
        published,
        model,
        error,
        basis,
        limit,
        met,
        why: None,
    }
}

const MEMORY_WHY: &str =
    "no fixed part with a part for each drive gives 200, 400 and 900; see docs/design/offload-study.md";
const CPU_WHY: &str = "the published CPU time falls from three drives to five and rises to nine";
const NETWORK_WHY: &str = "the table counts interims as network that stay within their node";

fn cells(platform: &Platform) -> Result<Vec<Cell>, PlatformError> {
    let mut cells = Vec::new();
    for (number, of) in RUNS.into_iter().enumerate() {
        let outcomes = [run(platform, Method::Host, of.drives)?, run(platform, Method::Stripe, of.drives)?];
        for (offloaded, outcome) in outcomes.iter().enumerate() {
            let method = outcome.method;
            let fitted = |on: &[usize]| if on.contains(&number) { Basis::Fitted } else { Basis::Predicted };
            let (basis, limit) = match offloaded {
                0 => (fitted(&[0, 1]), HOST_LIMIT),
                _ => (fitted(&[0]), LIMIT),
            };
            let values = [of.seconds[offloaded], outcome.seconds];
            cells.push(cell(of, "seconds", method, values, basis, Some(limit)));
            let values = [of.memory_mb_per_s[offloaded], outcome.memory_per_s / 1e6];
            let (basis, why) = match (offloaded, of.source) {
                (0, SLIDES) => (Basis::Given, None),
                (0, _) => (fitted(&[0, 1]), None),
                _ => (fitted(&[0, 1]), Some(MEMORY_WHY)),
            };
            let memory = cell(of, "host memory, MB/s", method, values, basis, Some(LIMIT));
            cells.push(Cell { why: why.filter(|_| memory.met == Some(false)), ..memory });
            let values = [of.cpu_percent[offloaded], outcome.threads_busy * 100.0];
            let cpu = cell(of, "CPU, percent", method, values, Basis::Reported, None);
            cells.push(Cell { why: (offloaded == 1).then_some(CPU_WHY), ..cpu });
        }
    }
    cells.extend(traffic()?);
    Ok(cells)
}

/// The accounting tables: 24 drives of 4 TB on three nodes.
fn traffic() -> Result<Vec<Cell>, PlatformError> {
    let platform = Platform {
        drive_bytes: 4_000_000_000_000,
        drives_per_node: Some(8),
        parity: 1,
        memory_per_byte: MEMORY_PER_BYTE,
        ..Platform::modern()
    };
    let of = Run { source: BRIEF, drives: 24, ..RUNS[0] };
    let mut cells = Vec::new();
    for (method, [network, pcie]) in Method::ALL.into_iter().zip(TRAFFIC) {
        let outcome = run(&platform, method, of.drives)?;
        let moved = [("network, TB", network, outcome.network_bytes), ("PCIe, TB", pcie, outcome.pcie_bytes)];
        for (figure, published, bytes) in moved {
            let found = cell(of, figure, method, [published, bytes / 1e12], Basis::Predicted, Some(LIMIT));
            cells.push(Cell { why: (found.met == Some(false)).then_some(NETWORK_WHY), ..found });
        }
    }
    Ok(cells)
}

fn variants() -> Result<Vec<Variant>, PlatformError> {
    let base = Platform::published();
    let changes = [
        ("as above", base.clone()),
        ("no ceiling of host memory", Platform { memory: 170_000_000_000, ..base.clone() }),
        ("segments of 64 KiB", Platform { segment: 64 << 10, ..base.clone() }),
        ("segments of 512 KiB", Platform { segment: 512 << 10, ..base.clone() }),
        ("reads take 40 us", Platform { medium_latency_ns: 40_000, ..base.clone() }),
        ("reads take 120 us", Platform { medium_latency_ns: 120_000, ..base.clone() }),
        ("two requests a drive", Platform { requests: 2, ..base.clone() }),
    ];
    let mut found = Vec::new();
    for (change, platform) in changes {
        let (platform, fits) = fit(&platform)?;
        let mut variant = Variant {
            change,
            engine: fits.engine,
            offload_errors: [0.0; 4],
            host_errors: [0.0; 4],
            memory_errors: [0.0; 4],
        };
        for (at, of) in RUNS.into_iter().enumerate() {
            let host = run(&platform, Method::Host, of.drives)?;
            let offloaded = run(&platform, Method::Stripe, of.drives)?;
            variant.host_errors[at] = host.seconds / of.seconds[0] - 1.0;
            variant.memory_errors[at] = host.memory_per_s / 1e6 / of.memory_mb_per_s[0] - 1.0;
            variant.offload_errors[at] = offloaded.seconds / of.seconds[1] - 1.0;
        }
        found.push(variant);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

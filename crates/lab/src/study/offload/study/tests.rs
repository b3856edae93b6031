use super::*;
use std::sync::LazyLock;

static REPORT: LazyLock<Report> =
    LazyLock::new(|| study(Platform::modern(), &[4, 64], &Method::ALL).expect("machines that can check"));

#[test]
fn the_published_tables_are_met_but_for_the_named_cells() {
    let report = &*REPORT;
    let missed: Vec<_> = report.cells.iter().filter(|c| c.met == Some(false)).collect();
    let names: Vec<_> = missed.iter().map(|c| (c.source, c.figure, c.method, c.drives)).collect();
    assert_eq!(
        names,
        [
            (BRIEF, "host memory, MB/s", Method::Stripe, 9),
            (SLIDES, "host memory, MB/s", Method::Stripe, 9),
            (BRIEF, "network, TB", Method::Aggregate, 24)
        ],
        "{missed:#?}"
    );
    assert!(missed.iter().all(|c| c.why.is_some()), "each has its reason");
    let predicted = |figure, method| {
        let cells = report.cells.iter().filter(move |c| c.figure == figure && c.method == method);
        cells.filter(|c| c.basis == Basis::Predicted && c.met == Some(true)).count()
    };
    assert_eq!(predicted("seconds", Method::Stripe), 3, "five and nine drives, brief and slides");
    assert_eq!(predicted("seconds", Method::Host), 2, "nine drives, brief and slides");
    assert_eq!(predicted("host memory, MB/s", Method::Host), 1, "nine drives of the brief");
}

#[test]
fn what_was_fitted_is_met_exactly_and_has_the_values_of_the_page() {
    let report = &*REPORT;
    for cell in &report.cells {
        if cell.basis == Basis::Fitted && cell.figure == "seconds" {
            assert!(cell.error.abs() < 0.002, "{cell:?}");
        }
    }
    let fits = report.fits;
    assert!((555_000_000..=565_000_000).contains(&fits.engine), "{fits:?}");
    assert!((fits.thread_per_stripe_ns / 76_022.0 - 1.0).abs() < 0.001, "29 s of 381470 stripes: {fits:?}");
    assert!((fits.thread_per_segment_ns / 20_971.5 - 1.0).abs() < 0.001, "8 s: {fits:?}");
    assert!((fits.memory_per_byte - 2.6735).abs() < 0.001, "{fits:?}");
    assert!((fits.memory_per_segment_offloaded / 131_072.0 - 0.1447).abs() < 0.001, "{fits:?}");
}

#[test]
fn the_accounting_tables_come_out_of_the_machine() {
    let cells: Vec<_> = REPORT.cells.iter().filter(|c| c.figure.ends_with("TB")).collect();
    assert_eq!(cells.len(), 6);
    for cell in cells {
        // 16 of 23 interims leave their node; the table counts them all.
        let counted = if cell.why.is_some() { 16.0 / 23.0 } else { 1.0 };
        assert!((cell.model / (cell.published * counted) - 1.0).abs() < 0.001, "{cell:?}");
    }
}

#[test]
fn without_the_ceiling_of_memory_the_time_is_met_and_the_memory_figure_is_not() {
    let report = &*REPORT;
    let free = report.variants.iter().find(|v| v.change.starts_with("no ceiling")).expect("a variant");
    assert!((free.host_errors[2] - (101.0 / 119.0 - 1.0)).abs() < 0.003, "{free:?}");
    assert!(free.memory_errors[2] > 0.19, "{free:?}");
    let base = &report.variants[0];
    assert!(base.host_errors[2].abs() < 0.02 && base.memory_errors[2].abs() < 0.05, "{base:?}");
}

#[test]
fn offload_scales_with_drives_and_the_host_does_not() {
    let report = &*REPORT;
    let rate = |row: usize, method: usize| report.modern[row].methods[method].checked_per_s;
    for method in [1, 2] {
        assert!(rate(1, method) / rate(0, method) > 12.0, "16 times the drives: {:?}", report.modern);
    }
    assert!((rate(1, 0) / 50e9 - 1.0).abs() < 0.02, "the host's network");
    assert_eq!(report.modern[1].methods[0].limit, "host network");
    assert!((report.modern[1].engine_to_match / (50e9 / 64.0) - 1.0).abs() < 0.02);
}

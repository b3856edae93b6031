//! Table of the measurements.

use super::{Document, Latency, Mode, Switch};
use pumice::text::table;
use pumice_base::units::format_binary;

pub(super) fn human(document: &Document) -> String {
    let place = match document.nodes {
        0 => "in this process".to_owned(),
        nodes => format!("on {nodes} node processes"),
    };
    let consistency = match document.consistency {
        Mode::Log => "the stripe log",
        Mode::Bitmap => "the bitmap",
    };
    let offload = match document.offload {
        Switch::Auto => "auto",
        Switch::On => "on",
        Switch::Off => "off",
    };
    let mut out = format!(
        "{}+{} drives in memory {place}, chunks of {}, consistency by {consistency}, offload {offload}\n\
         Bytes are for each byte of the user, or rebuilt\n\n",
        document.data,
        document.parity,
        format_binary(document.chunk_bytes),
    );
    let head = [
        "",
        "bytes",
        "depth",
        "per second",
        "GB/s",
        "p50 us",
        "p99 us",
        "host sends",
        "host receives",
        "node to node",
        "host writes",
        "host reads",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for case in &document.cases {
        let far = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
        let time = |of: fn(&Latency) -> f64| {
            case.latency_us.as_ref().map_or_else(|| "-".to_owned(), |latency| format!("{:.1}", of(latency)))
        };
        rows.push(vec![
            case.work.to_owned(),
            case.request_bytes.to_string(),
            case.depth.to_string(),
            format!("{:.0}", case.per_second),
            format!("{:.3}", case.gb_per_s),
            time(|latency| latency.p50),
            time(|latency| latency.p99),
            far(case.per_byte.host_sent),
            far(case.per_byte.host_received),
            far(case.per_byte.node_to_node),
            format!("{:.4}", case.per_byte.host_written),
            format!("{:.4}", case.per_byte.host_read),
        ]);
    }
    out.push_str(&table(&rows));
    out
}

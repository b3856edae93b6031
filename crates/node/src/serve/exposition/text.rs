//! The counters as OpenMetrics text.

use crate::serve::budgets::{self, Budget};
use crate::serve::metrics::{Class, Metrics, Sum, bucket_end};
use crate::serve::shared::Shared;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use pumice_blockdev::{FlashCounts, TagCounts};
use pumice_nvme::controller::Access;
use std::fmt;
use std::sync::Arc;

/// All that there is to tell, now.
pub(in crate::serve) fn render(shared: &Arc<Shared>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Node(Arc::clone(shared))));
    let mut text = String::new();
    encode_registry(&mut text, &registry).expect("a string takes everything");
    text.push_str(&shared.more().unwrap_or_default());
    encode_eof(&mut text).expect("a string takes everything");
    text
}

#[derive(Debug)]
struct Node(Arc<Shared>);

/// Labels of one line, and its value.
type Line<V> = (Vec<(&'static str, String)>, V);

fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl IntoIterator<Item = Line<u64>>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in lines {
        labelled(&mut metric, &labels, |line| line.encode_counter::<NoLabelSet, _, u64>(&value, None))?;
    }
    Ok(())
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl IntoIterator<Item = Line<f64>>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in lines {
        labelled(&mut metric, &labels, |line| line.encode_gauge(&value))?;
    }
    Ok(())
}

fn labelled(
    metric: &mut MetricEncoder<'_>,
    labels: &Vec<(&'static str, String)>,
    value: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() { value(metric) } else { value(&mut metric.encode_family(labels)?) }
}

fn drive(index: usize) -> Vec<(&'static str, String)> {
    vec![("drive", (index + 1).to_string())]
}

impl Collector for Node {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (shared, metrics) = (&*self.0, self.0.metrics());
        blocks(&mut encoder, shared, metrics)?;
        connections(&mut encoder, shared, metrics)?;
        checks(&mut encoder, shared)
    }
}

fn blocks(encoder: &mut DescriptorEncoder<'_>, shared: &Shared, metrics: &Metrics) -> fmt::Result {
    let drives = shared.devices().len();
    let cores = metrics.cores();
    let mut sums = Vec::with_capacity(drives * Class::ALL.len());
    for index in 0..drives {
        for class in Class::ALL {
            let mut sum = Sum::default();
            cores.iter().for_each(|core| core.add_to(index, class, &mut sum));
            let mut labels = drive(index);
            labels.push(("class", class.name().to_owned()));
            sums.push((labels, sum));
        }
    }
    let of = |value: fn(&Sum) -> u64| sums.iter().map(move |(labels, sum)| (labels.clone(), value(sum)));
    counters(encoder, "pumice_io_commands", "Commands that ended", of(|sum| sum.commands))?;
    counters(encoder, "pumice_io_errors", "Commands that failed", of(|sum| sum.errors))?;
    counters(encoder, "pumice_io_bytes", "Bytes of commands that succeeded", of(|sum| sum.bytes))?;
    let help = "Time of commands that wait for a medium";
    let mut metric =
        encoder.encode_descriptor("pumice_io", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (labels, sum) in sums.iter().filter(|(_, sum)| sum.times.iter().any(|count| *count != 0)) {
        let buckets: Vec<(f64, u64)> =
            sum.times.iter().enumerate().map(|(bucket, count)| (bucket_end(bucket), *count)).collect();
        let count = sum.times.iter().sum();
        metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(
            sum.ns as f64 * 1e-9,
            count,
            &buckets,
            None,
        )?;
    }
    let named = |(index, device): (usize, &Arc<dyn pumice_blockdev::BlockDevice>)| {
        let mut labels = drive(index);
        labels.push(("name", device.name().to_owned()));
        (labels, 1.0)
    };
    let names = shared.devices().iter().enumerate().map(named);
    gauges(encoder, "pumice_drive_info", "The names of the drives", names)?;
    let failed = (0..drives).map(|index| (drive(index), f64::from(u8::from(metrics.has_failed(index)))));
    gauges(encoder, "pumice_drive_failed", "Whether a drive lost data or fails writes", failed)?;
    tags(encoder, shared)?;
    flash(encoder, shared)
}

/// Counters of flash drives; nothing if there is none.
fn flash(encoder: &mut DescriptorEncoder<'_>, shared: &Shared) -> fmt::Result {
    let counts = shared.devices().iter().enumerate();
    let counts: Vec<(usize, FlashCounts)> =
        counts.filter_map(|(index, device)| Some((index, device.flash_counts()?))).collect();
    if counts.is_empty() {
        return Ok(());
    }
    let with = |index: usize, label: &'static str, value: &str| {
        let mut labels = drive(index);
        labels.push((label, value.to_owned()));
        labels
    };
    let of = |value: fn(&FlashCounts) -> u64| {
        counts.iter().map(move |(index, counts)| (drive(*index), value(counts)))
    };
    counters(encoder, "pumice_flash_host_pages", "Pages that hosts wrote", of(|c| c.host_writes))?;
    let programs = counts.iter().flat_map(|(index, c)| {
        [("hosts", c.host_programs), ("collection", c.copies)].map(|(r, n)| (with(*index, "reason", r), n))
    });
    let help = "Pages that were programmed for hosts, and moved by garbage collection";
    counters(encoder, "pumice_flash_programs", help, programs)?;
    let merges = counts.iter().flat_map(|(index, c)| {
        [("write", c.inline_hits), ("idle", c.idle_merges), ("collection", c.gc_merges)]
            .map(|(when, n)| (with(*index, "when", when), n))
    });
    counters(encoder, "pumice_flash_merges", "Pages that deduplication saved or merged away", merges)?;
    let help = "Pages that were looked up for their contents";
    counters(encoder, "pumice_flash_lookups", help, of(|c| c.lookups))?;
    let help = "Pages that were read to hash or to compare contents";
    counters(encoder, "pumice_flash_dedup_reads", help, of(|c| c.dedup_reads))?;
    counters(encoder, "pumice_flash_erases", "Blocks that were erased", of(|c| c.erases))?;
    let help = "Pages whose data were lost before they could be moved";
    counters(encoder, "pumice_flash_lost_pages", help, of(|c| c.lost_pages))?;
    let now = |value: fn(&FlashCounts) -> f64| {
        counts.iter().map(move |(index, counts)| (drive(*index), value(counts)))
    };
    let help = "Logical pages that hold something";
    gauges(encoder, "pumice_flash_mapped_pages", help, now(|c| c.mapped_pages as f64))?;
    let help = "Physical pages that hold something";
    gauges(encoder, "pumice_flash_live_pages", help, now(|c| c.live_pages as f64))?;
    let help = "Logical pages whose contents wait for a look";
    gauges(encoder, "pumice_flash_waiting_pages", help, now(|c| c.waiting_pages as f64))?;
    let blocks = counts.iter().flat_map(|(index, c)| {
        let used = c.blocks.saturating_sub(c.free_blocks + c.retired_blocks);
        [("free", c.free_blocks), ("used", used), ("retired", c.retired_blocks)]
            .map(|(state, n)| (with(*index, "state", state), n as f64))
    });
    gauges(encoder, "pumice_flash_blocks", "Blocks of data", blocks)?;
    let help = "Programs for each page that hosts wrote";
    gauges(encoder, "pumice_flash_write_amplification", help, now(FlashCounts::write_amplification))?;
    let erases = counts.iter().flat_map(|(index, c)| {
        [("least", c.fewest_erases as f64), ("mean", c.mean_erases), ("most", c.most_erases as f64)]
            .map(|(of, n)| (with(*index, "of", of), n))
    });
    gauges(encoder, "pumice_flash_block_erases", "Erases of a block of data", erases)
}

/// Counters of tags beside drives; nothing if no drive has any.
fn tags(encoder: &mut DescriptorEncoder<'_>, shared: &Shared) -> fmt::Result {
    let counts = shared.devices().iter().enumerate();
    let counts: Vec<(usize, TagCounts)> =
        counts.filter_map(|(index, device)| Some((index, device.tagged()?.counts()))).collect();
    if counts.is_empty() {
        return Ok(());
    }
    let of = |value: fn(&TagCounts) -> u64| counts.iter().map(move |(i, counts)| (drive(*i), value(counts)));
    let help = "Reads that were refused because a block differs from its tag";
    counters(encoder, "pumice_tags_refused", help, of(|counts| counts.refused))?;
    let help = "Blocks that were served although they differ from their tags";
    counters(encoder, "pumice_tags_served", help, of(|counts| counts.served))?;
    let help = "Pages of tags that were found lost";
    counters(encoder, "pumice_tags_lost_pages", help, of(|counts| counts.lost_pages))?;
    let stale = counts.iter().map(|(i, counts)| (drive(*i), f64::from(u8::from(counts.stale))));
    gauges(encoder, "pumice_tags_stale", "Whether the tags are stale, so that nothing is refused", stale)
}

fn connections(encoder: &mut DescriptorEncoder<'_>, shared: &Shared, metrics: &Metrics) -> fmt::Result {
    let one = |value: f64| [(Vec::new(), value)];
    let hosts = shared.subsystem().with(|subsystem| subsystem.hosts());
    gauges(encoder, "pumice_connections", "Connections", one(shared.connections() as f64))?;
    gauges(encoder, "pumice_associations", "Associations of hosts", one(hosts as f64))?;
    for (name, help, count) in [
        ("pumice_connections_accepted", "Connections that were accepted", &metrics.accepted),
        ("pumice_connections_refused", "Connections for which there was no room", &metrics.no_room),
        ("pumice_connections_displaced", "Connections that made room for others", &metrics.gave_way),
        ("pumice_associations_begun", "Associations since the start", &metrics.associations),
        ("pumice_connects_refused", "Connect commands that were refused", &metrics.connects_refused),
        ("pumice_violations", "Violations of the protocol", &metrics.violations),
        ("pumice_log_suppressed", "Lines of the log that were left out", shared.log().suppressed()),
    ] {
        counters(encoder, name, help, [(Vec::new(), count.get())])?;
    }
    let budgets = budgets::all(shared);
    let of = |value: fn(&Budget) -> u64| {
        budgets.iter().map(move |budget| (vec![("budget", budget.name.to_owned())], value(budget) as f64))
    };
    gauges(encoder, "pumice_budget_used", "Used part of a budget", of(|state| state.used))?;
    gauges(encoder, "pumice_budget_limit", "The bound", of(|state| state.limit))
}

fn checks(encoder: &mut DescriptorEncoder<'_>, shared: &Shared) -> fmt::Result {
    let parity = shared.offload().counts();
    for (name, help, count) in [
        ("pumice_parity_commands", "Parity commands over media", &parity.commands),
        ("pumice_parity_failed", "Parity commands over media that failed", &parity.failed),
        ("pumice_parity_stripes", "Stripes that parity commands checked", &parity.stripes),
        ("pumice_parity_suspects", "Stripes whose equations did not hold", &parity.suspects),
        ("pumice_parity_unreadable", "Places that a medium refused", &parity.unreadable),
    ] {
        counters(encoder, name, help, [(Vec::new(), count.get())])?;
    }
    let ages = shared.pacing().unchecked_seconds().into_iter().enumerate();
    let ages = ages.filter_map(|(index, age)| Some((drive(index), age? as f64)));
    gauges(
        encoder,
        "pumice_unchecked_seconds",
        "Time since the check of the part that was checked least recently",
        ages,
    )?;
    let shares = shared.pacing().checked_shares().into_iter().enumerate();
    let shares = shares.map(|(index, share)| (drive(index), share));
    gauges(encoder, "pumice_checked_ratio", "Share of the drive that was checked since the start", shares)?;
    let figures = shared.pacing().figures(0);
    let slowdowns = figures
        .iter()
        .map(|figures| (drive(figures.drive.0 as usize - 1), figures.slowdown_mean_ns as f64 * 1e-9));
    let help = "Average delay of a foreground request by background work";
    gauges(encoder, "pumice_slowdown_seconds", help, slowdowns)
}

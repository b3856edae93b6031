//! Figures of a volume as OpenMetrics text. `docs/reference/visibility.md` has the names.

use crate::api::{Condition, Severity, Volume};
use crate::events::EventLog;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use pumice_executor::Facts;
use std::fmt;

/// The figures, each name with its comments, without the end mark. Without a `volume` nobody has
/// looked at it yet.
pub(crate) fn exposition(facts: &Facts, volume: Option<&Volume>, events: &EventLog) -> String {
    let figures = Figures {
        array: facts.uuid.to_string(),
        name: facts.name.clone(),
        level: facts.geometry.level().number(),
        volume: volume.cloned(),
        events: events.counts(),
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    // A string takes everything.
    let _ = prometheus_client::encoding::text::encode_registry(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Figures {
    array: String,
    name: String,
    level: i32,
    volume: Option<Volume>,
    events: Vec<(&'static str, Severity, u64)>,
}

type Labels = Vec<(&'static str, String)>;

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    lines: impl IntoIterator<Item = (Labels, f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in lines {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

impl Figures {
    fn labels(&self) -> Labels {
        vec![("array", self.array.clone())]
    }

    fn with(&self, label: &'static str, value: &impl ToString) -> Labels {
        let mut labels = self.labels();
        labels.push((label, value.to_string()));
        labels
    }

    fn state(&self, encoder: &mut DescriptorEncoder<'_>, volume: &Volume) -> fmt::Result {
        let missing = volume.members.iter().filter(|member| member.state != "in_sync").count();
        let help = "Members that are not in sync";
        gauge(encoder, ("pumice_array_members_missing", help), [(self.labels(), missing as f64)])?;
        let states = [Condition::Healthy, Condition::Degraded, Condition::Rebuilding, Condition::Held];
        let states = states.map(|state| {
            let is_now = f64::from(u8::from(volume.condition == state));
            (self.with("state", &state.word()), is_now)
        });
        gauge(
            encoder,
            ("pumice_array_state", "The state of the array: 1 for the one that it is in"),
            states,
        )?;
        let help = "Drives that may be lost, whichever they are";
        let drives = [(self.labels(), volume.survives.drives as f64)];
        gauge(encoder, ("pumice_volume_survives_drives", help), drives)?;
        let help = "Nodes that may be lost, whichever they are";
        let nodes = [(self.labels(), volume.survives.nodes as f64)];
        gauge(encoder, ("pumice_volume_survives_nodes", help), nodes)?;
        let held = f64::from(u8::from(volume.condition == Condition::Held));
        let help = "Whether more members are missing than the volume survives";
        gauge(encoder, ("pumice_volume_held", help), [(self.labels(), held)])?;
        let rebuilt = volume
            .members
            .iter()
            .filter_map(|member| Some((self.with("role", &member.role), member.rebuilt? as f64 / 1000.0)));
        gauge(encoder, ("pumice_volume_rebuild_ratio", "The part of a member that is rebuilt"), rebuilt)
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut info = self.with("name", &self.name);
        info.push(("level", self.level.to_string()));
        gauge(&mut encoder, ("pumice_array_info", "The name of the array"), [(info, 1.0)])?;
        if let Some(volume) = &self.volume {
            self.state(&mut encoder, volume)?;
        }
        let help = "Events since the server began";
        let mut metric =
            encoder.encode_descriptor("pumice_volume_events", help, None, MetricType::Counter)?;
        for (event, severity, count) in &self.events {
            let mut labels = self.with("event", &event);
            labels.push(("severity", word(*severity).to_owned()));
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }
}

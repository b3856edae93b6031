//! The published figures, and where they contradict each other.

use serde::Serialize;

/// A run of the proof of concept, as published: drives of 50 GB each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) source: &'static str,
    pub(super) drives: u64,
    /// Seconds, by the host and offloaded.
    pub(super) seconds: [f64; 2],
    /// Largest bandwidth of host memory, MB/s.
    pub(super) memory_mb_per_s: [f64; 2],
    /// CPU, percent of one core.
    pub(super) cpu_percent: [f64; 2],
}

pub(super) const BRIEF: &str = "brief 2025";
pub(super) const SLIDES: &str = "slides 2024";

/// Bytes of a drive that were checked.
pub(super) const DRIVE_BYTES: f64 = 50e9;

/// The four runs.
pub(super) const RUNS: [Run; 4] = [
    Run {
        source: BRIEF,
        drives: 3,
        seconds: [53.0, 103.0],
        memory_mb_per_s: [7_650.0, 200.0],
        cpu_percent: [99.4, 32.8],
    },
    Run {
        source: BRIEF,
        drives: 5,
        seconds: [69.0, 95.0],
        memory_mb_per_s: [9_580.0, 400.0],
        cpu_percent: [100.1, 30.0],
    },
    Run {
        source: BRIEF,
        drives: 9,
        seconds: [119.0, 101.0],
        memory_mb_per_s: [9_885.0, 900.0],
        cpu_percent: [100.5, 51.0],
    },
    Run {
        source: SLIDES,
        drives: 9,
        seconds: [129.0, 91.0],
        memory_mb_per_s: [10_240.0, 1_430.0],
        cpu_percent: [99.5, 70.0],
    },
];

/// PCIe writes on nine drives in the slides, MB/s, by the host and offloaded.
pub(super) const PCIE_WRITES: [f64; 2] = [3_694.0, 159.0];

/// The accounting tables for 22 + 2 drives of 4 TB on three nodes: network and PCIe in TB, for
/// `host`, `stripe` and `aggregate`.
pub(super) const TRAFFIC: [[f64; 2]; 3] = [[96.0, 96.0], [8.0, 92.0], [0.4, 0.4]];
/// Bytes that pass host memory for each byte checked, in those tables: 192 TB of 96.
pub(super) const MEMORY_PER_BYTE: f64 = 2.0;

impl Run {
    /// Bytes that were checked.
    pub(super) fn bytes(&self) -> f64 {
        DRIVE_BYTES * self.drives as f64
    }

    /// Bytes of host memory traffic for each byte that was checked.
    pub(super) fn memory_per_byte(&self, offloaded: usize) -> f64 {
        self.memory_mb_per_s[offloaded] * 1e6 * self.seconds[offloaded] / self.bytes()
    }

    /// Seconds of CPU time.
    pub(super) fn cpu_seconds(&self, offloaded: usize) -> f64 {
        self.cpu_percent[offloaded] / 100.0 * self.seconds[offloaded]
    }
}

/// Published figures that cannot all be true, or that do not mean what they seem to.
#[derive(Debug, Clone, Serialize)]
pub struct Contradiction {
    /// The figures.
    pub figures: String,
    /// Reason why they do not agree, and the study's choice.
    pub why: String,
}

/// All that were found, with the figures worked out.
#[must_use]
pub fn contradictions() -> Vec<Contradiction> {
    let found = [between_sources(), of_host_memory(), of_the_processor(), of_writes(), of_the_tables()];
    found.into_iter().flatten().map(|(figures, why)| Contradiction { figures, why }).collect()
}

/// The brief and the slides on nine drives.
fn between_sources() -> Vec<(String, String)> {
    let [_, _, nine, slides] = RUNS;
    let moved = PCIE_WRITES[0] * slides.seconds[0] / 1e3;
    vec![
        (
            format!(
                "Nine drives: {} and {} s, {} and {} MB/s (brief); {} and {} s, {} and {} MB/s (slides)",
                nine.seconds[0],
                nine.seconds[1],
                nine.memory_mb_per_s[0],
                nine.memory_mb_per_s[1],
                slides.seconds[0],
                slides.seconds[1],
                slides.memory_mb_per_s[0],
                slides.memory_mb_per_s[1]
            ),
            format!(
                "The same test on the same platform differs by {:.0} % in the offloaded time and {:.0} % in its memory \
                 traffic: no model can be nearer than that to both.",
                100.0 * (nine.seconds[1] / slides.seconds[1] - 1.0),
                100.0 * (slides.memory_mb_per_s[1] / nine.memory_mb_per_s[1] - 1.0)
            ),
        ),
        (
            format!(
                "{} MB/s of PCIe writes for {} s on nine drives (slides)",
                PCIE_WRITES[0], slides.seconds[0]
            ),
            format!(
                "That is {moved:.0} GB, and {:.0} GB were checked. At this rate the check takes {:.0} s, near to the \
                 brief's {}.",
                slides.bytes() / 1e9,
                slides.bytes() / 1e6 / PCIE_WRITES[0],
                nine.seconds[0]
            ),
        ),
    ]
}

/// Traffic through host memory.
fn of_host_memory() -> Vec<(String, String)> {
    let [three, five, nine, slides] = RUNS;
    let ratio = |run: Run, offloaded| format!("{:.2}", run.memory_per_byte(offloaded));
    vec![
        (
            format!(
                "192 TB through host memory for 96 TB checked (tables); {}, {}, {} and {} bytes a byte (measured)",
                ratio(three, 0),
                ratio(five, 0),
                ratio(nine, 0),
                ratio(slides, 0)
            ),
            "The tables count one write and one read. What was measured is a maximum, not a mean, and has everything \
             else that runs in it: the study fits the factor."
                .to_owned(),
        ),
        (
            format!(
                "0 TB through host memory when offloaded (tables); {}, {}, {} and {} bytes a byte (measured)",
                ratio(three, 1),
                ratio(five, 1),
                ratio(nine, 1),
                ratio(slides, 1)
            ),
            "The tables leave out what the host does to issue and complete requests. It grows faster than the number \
             of drives."
                .to_owned(),
        ),
        (
            format!(
                "{} MB/s through host memory and {} MB/s of PCIe writes, both offloaded (slides)",
                slides.memory_mb_per_s[1], PCIE_WRITES[1]
            ),
            format!(
                "Drives write {:.0} % of what passes host memory. The rest comes from the host itself.",
                100.0 * PCIE_WRITES[1] / slides.memory_mb_per_s[1]
            ),
        ),
    ]
}

/// CPU time.
fn of_the_processor() -> Vec<(String, String)> {
    let [three, five, nine, slides] = RUNS;
    let saved = |run: Run| 100.0 * (1.0 - run.cpu_seconds(1) / run.cpu_seconds(0));
    vec![
        (
            format!(
                "CPU {} and {} % on three drives, called 67 % less (brief)",
                three.cpu_percent[0], three.cpu_percent[1]
            ),
            format!(
                "The shares are of {} and {} s. In CPU time it is {:.0} % less on three drives, {:.0} % on five, {:.0} % \
                 on nine.",
                three.seconds[0],
                three.seconds[1],
                saved(three),
                saved(five),
                saved(nine)
            ),
        ),
        (
            format!(
                "CPU time when offloaded: {:.1}, {:.1}, {:.1} s on 3, 5, 9 drives (brief), {:.1} s on 9 (slides)",
                three.cpu_seconds(1),
                five.cpu_seconds(1),
                nine.cpu_seconds(1),
                slides.cpu_seconds(1)
            ),
            "It falls from three drives to five and rises to nine: no cost for each stripe and each drive does that."
                .to_owned(),
        ),
    ]
}

/// Full-stripe writes.
fn of_writes() -> Vec<(String, String)> {
    let write = 340.0 * f64::from(1 << 20) / 950e6;
    vec![
        (
            "Full-stripe writes, offloaded: 340 MiB/s of host memory at 950 MB/s written, called 91 % less than 3450 (slides)"
                .to_owned(),
            format!(
                "{write:.2} bytes a byte, though each byte written leaves host memory once: it must have come from the \
                 processor's caches. And 340 of 3450 is {:.1} % less.",
                100.0 * (1.0 - 340.0 / 3_450.0)
            ),
        ),
    ]
}

/// The tables of traffic.
fn of_the_tables() -> Vec<(String, String)> {
    vec![
        (
            "PCIe 96 TB by the host and 92 TB per stripe, called 5 % less; network 8 TB (tables)".to_owned(),
            format!(
                "It is {:.1} % less. 8 TB are one interim from each of two nodes; P and Q checked apart need two \
                 interims, 16 TB.",
                100.0 * (1.0 - TRAFFIC[1][1] / TRAFFIC[0][1])
            ),
        ),
        (
            "Network across stripes 0.4 TB, as much as PCIe; network per stripe 8 TB (tables)".to_owned(),
            format!(
                "Per stripe only what leaves a node is counted; across stripes every interim is. Only 16 of 23 leave \
                 their node: {:.2} TB.",
                TRAFFIC[2][1] * 16.0 / 23.0
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_worked_out_from_the_published_figures() {
        let text: String = contradictions().iter().map(|c| format!("{} {}\n", c.figures, c.why)).collect();
        for figure in [
            "11 % in the offloaded time",
            "59 % in its memory traffic",
            "477 GB",
            "takes 122 s",
            "2.70, 2.64, 2.61 and 2.94 bytes",
            "0.14, 0.15, 0.20 and 0.29 bytes",
            "write 11 % of",
            "36 % less on three drives, 59 % on five, 57 % on nine",
            "33.8, 28.5, 51.5 s on 3, 5, 9 drives (brief), 63.7 s",
            "16 of 23",
            "0.38 bytes a byte",
            "90.1 % less",
            "4.2 % less",
        ] {
            assert!(text.contains(figure), "{figure} in\n{text}");
        }
    }
}

//! The tables: what is covered, and what came of a run.

use crate::pairs::cell::Outcome;
use crate::pairs::feature::{Feature, Kind, Pair};

/// The marks of a pair in the table of `docs/design/pairs.md`.
fn mark(pairs: &[Pair], short: &[Pair], first: Feature, second: Feature) -> String {
    let of = |kind, long: &str, both: &str| {
        let pair = Pair { kind, first, second };
        match (pairs.contains(&pair), short.contains(&pair)) {
            (_, true) => both.to_owned(),
            (true, false) => long.to_owned(),
            _ => String::new(),
        }
    };
    let marks = of(Kind::Volume, "v", "V") + &of(Kind::Images, "i", "I");
    if marks.is_empty() { "–".to_owned() } else { marks }
}

/// The table of pairs: a row for the feature that begins, a column for the one that joins it.
pub(crate) fn covered() -> String {
    let (pairs, short) = (Pair::all(), Pair::short());
    let mut out = String::from("| first \\ second |");
    for feature in Feature::ALL {
        out += &format!(" {} |", feature.name());
    }
    out += "\n|---|";
    out += &"---|".repeat(Feature::ALL.len());
    out += "\n";
    for first in Feature::ALL {
        out += &format!("| {} |", first.name());
        for second in Feature::ALL {
            out += &format!(" {} |", mark(&pairs, &short, first, second));
        }
        out += "\n";
    }
    out
}

/// The table of a run, in Markdown.
pub(crate) fn record(outcomes: &[Outcome], seconds: u64, seed: u64) -> String {
    let failed: Vec<&Outcome> = outcomes.iter().filter(|o| !o.troubles.is_empty()).collect();
    let skipped = outcomes.iter().filter(|o| o.skipped.is_some()).count();
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let mut out = format!(
        "{} cells of {seconds} s, seed {seed}: {} passed, {} failed, {skipped} skipped. \
         {} writes acknowledged, {} reads compared.\n\n",
        outcomes.len(),
        outcomes.len() - failed.len() - skipped,
        failed.len(),
        sum(|o| o.written),
        sum(|o| o.verified)
    );
    for kind in [Kind::Volume, Kind::Images] {
        if !outcomes.iter().any(|o| o.pair.kind == kind) {
            continue;
        }
        out += &format!("| {}: first \\ second |", kind.name());
        for feature in Feature::ALL {
            out += &format!(" {} |", feature.name());
        }
        out += &format!("\n|---|{}\n", "---|".repeat(Feature::ALL.len()));
        for first in Feature::ALL {
            let cell = |second| {
                let pair = Pair { kind, first, second };
                match outcomes.iter().find(|o| o.pair == pair) {
                    None => "–",
                    Some(o) if o.skipped.is_some() => "skipped",
                    Some(o) if o.troubles.is_empty() => "ok",
                    Some(_) => "**fails**",
                }
            };
            let row: String = Feature::ALL.into_iter().map(|second| format!(" {} |", cell(second))).collect();
            out += &format!("| {} |{row}\n", first.name());
        }
        out += "\n";
    }
    if !failed.is_empty() {
        out += "| cell that fails | first reason |\n|---|---|\n";
        for outcome in failed {
            let why = outcome.troubles[0].replace('|', "/").replace('\n', " ");
            let why: String = why.chars().take(300).collect();
            out += &format!("| {} | {why} |\n", outcome.pair.name());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/design/pairs.md");

    #[test]
    fn the_page_has_the_table_of_pairs() {
        assert!(PAGE.contains(&covered()), "docs/design/pairs.md: cargo xtask pairs --table prints it");
    }

    #[test]
    fn the_page_has_every_feature_and_no_other() {
        let (_, section) = PAGE.split_once("\n## The features\n").expect("the section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let names: Vec<&str> = Feature::ALL.iter().map(|feature| feature.name()).collect();
        assert_eq!(rows.collect::<Vec<_>>(), names);
    }

    #[test]
    fn the_short_form_has_thirty_pairs_of_the_table() {
        let (short, all) = (Pair::short(), Pair::all());
        assert_eq!(short.len(), 30);
        assert!(short.iter().all(|pair| all.contains(pair)));
        let is_twice = |pair: &Pair| short.iter().filter(|other| *other == pair).count() > 1;
        assert!(!short.iter().any(is_twice));
    }
}

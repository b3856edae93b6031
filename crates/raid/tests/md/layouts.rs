//! The geometry against a table of what md does.

use std::fmt::Write as _;

use pumice_base::units::{Role, StripeIndex};
use pumice_raid::geometry::Geometry;
use pumice_raid::layout::{Layout, Level};

const TABLE: &str = include_str!("../data/layouts.txt");

/// A stripe in the notation of the table.
fn notation(geometry: &Geometry, stripe: StripeIndex) -> String {
    let map = geometry.stripe(stripe);
    let mut out = String::new();
    for role in (0..geometry.raid_disks()).map(Role) {
        let space = if out.is_empty() { "" } else { " " };
        if role == map.p {
            write!(out, "{space}P").unwrap();
        } else if Some(role) == map.q {
            write!(out, "{space}Q").unwrap();
        } else {
            let index = map.data.iter().position(|r| *r == role).unwrap();
            write!(out, "{space}{index}").unwrap();
            if let Some(exponent) = map.exponents.get(index) {
                write!(out, ":{exponent}").unwrap();
            }
        }
    }
    out
}

#[test]
fn every_layout_is_as_tabulated() {
    let mut lines = 0;
    let mut kinds = std::collections::BTreeSet::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (head, expected) = line.split_once("  ").unwrap();
        let numbers: Vec<u32> = head.split(' ').map(|word| word.parse().unwrap()).collect();
        let level = Level::from_number(numbers[0] as i32).unwrap();
        let layout = Layout::from_number(level, numbers[1]);
        let geometry = Geometry::new(level, layout, numbers[2] as u16, 65536, 1 << 30).unwrap();
        kinds.insert((level, layout, numbers[2]));
        // The same a few periods on.
        for turn in [0, 1, 7] {
            let stripe = StripeIndex(u64::from(numbers[3]) + turn * geometry.period());
            assert_eq!(notation(&geometry, stripe), expected, "{geometry} stripe {stripe}");
        }
        lines += 1;
    }
    assert_eq!((lines, kinds.len()), (264, 54));
}

#[test]
fn raid4_keeps_parity_last() {
    let geometry = Geometry::new(Level::Raid4, None, 4, 65536, 1 << 20).unwrap();
    assert_eq!(notation(&geometry, StripeIndex(0)), "0 1 2 P");
    assert_eq!(notation(&geometry, StripeIndex(5)), "0 1 2 P");
}

#[test]
fn known_bytes_have_known_parity() {
    use pumice_parity::gf;
    let data = [0x01_u8, 0x02, 0x80, 0xFF, 0x5A];
    let geometry = Geometry::new(Level::Raid6, Some(Layout::ParityLast), 7, 4096, 4096).unwrap();
    let rows = geometry.check_rows(StripeIndex(0));
    let mut column = data.to_vec();
    column.extend([0x26, 0x5D]);
    for row in rows {
        assert_eq!(row.iter().zip(&column).fold(0, |sum, (c, x)| sum ^ gf::mul(*c, *x)), 0);
    }
}

use super::*;
use pumice_parity::gf;

fn geometry(level: Level, layout: Option<Layout>, disks: u16) -> Geometry {
    Geometry::new(level, layout, disks, 4096, 4096 * 1000).unwrap()
}

fn every_kind() -> Vec<Geometry> {
    let mut all = Vec::new();
    for disks in 2..12 {
        all.push(geometry(Level::Raid4, None, disks));
        for layout in Layout::ALL {
            all.extend(
                [Level::Raid5, Level::Raid6]
                    .into_iter()
                    .filter_map(|level| Geometry::new(level, Some(layout), disks, 4096, 4096 * 1000).ok()),
            );
        }
    }
    all
}

#[test]
fn period_is_the_smallest() {
    for g in every_kind() {
        let maps: Vec<_> = (0..100).map(|s| g.stripe(StripeIndex(s))).collect();
        let smallest = (1..50).find(|by| (0..50).all(|s| maps[s] == maps[s + by])).unwrap();
        assert_eq!(g.period(), smallest as u64, "{g}");
    }
}

#[test]
fn stripe_map_and_closed_forms_agree() {
    for g in every_kind() {
        for s in (0..2 * g.period()).map(StripeIndex) {
            let map = g.stripe(s);
            assert_eq!(map.data.len(), usize::from(g.data_disks()), "{g}");
            for (d, role) in map.data.iter().enumerate() {
                assert_eq!(g.data_index(s, *role), Some(d as u16), "{g} stripe {s}");
                assert_eq!(g.data_role(s, d as u16), *role, "{g} stripe {s}");
            }
            assert_eq!(g.data_index(s, map.p), None);
            assert!(map.q.is_none_or(|q| g.data_index(s, q).is_none()));
        }
    }
}

#[test]
fn array_offsets_go_both_ways_and_cover_the_array_once() {
    for g in every_kind() {
        for chunk in 0..3 * u64::from(g.raid_disks()) * u64::from(g.data_disks()) {
            let at = chunk * g.chunk_bytes() + 17;
            let place = g.locate(at).unwrap();
            assert_eq!(g.array_offset(place.stripe, place.role, place.offset), Some(at), "{g}");
        }
        assert_eq!(g.locate(g.array_bytes()), None);
        assert!(g.locate(g.array_bytes() - 1).is_some());
        assert_eq!(g.array_offset(StripeIndex(g.stripes()), Role(0), 0), None);
        assert_eq!(g.array_offset(StripeIndex(0), Role(g.raid_disks()), 0), None);
        assert_eq!(g.array_offset(StripeIndex(0), Role(0), g.chunk_bytes()), None);
    }
}

#[test]
fn q_coefficients_differ_and_rows_annihilate_codewords() {
    for g in every_kind().into_iter().filter(|g| g.level() == Level::Raid6) {
        for s in (0..g.period()).map(StripeIndex) {
            let map = g.stripe(s);
            let rows = g.check_rows(s);
            let mut exponents = map.exponents.clone();
            exponents.sort_unstable();
            exponents.dedup();
            assert_eq!(exponents.len(), map.data.len(), "{g}");
            let mut bytes = vec![0_u8; usize::from(g.raid_disks())];
            let (mut p, mut q) = (0, 0);
            for (i, role) in map.data.iter().enumerate() {
                let x = (i as u8).wrapping_mul(73) ^ 0xA5;
                bytes[role.index()] = x;
                p ^= x;
                q ^= gf::mul(x, gf::EXP[usize::from(map.exponents[i])]);
            }
            bytes[map.p.index()] = p;
            bytes[map.q.unwrap().index()] = q;
            let sum = |row: &[u8]| row.iter().zip(&bytes).fold(0, |a, (c, x)| a ^ gf::mul(*c, *x));
            assert!(rows.iter().all(|row| sum(row) == 0), "{g} stripe {s}");
            for absent in (0..g.raid_disks()).map(Role) {
                let left = g.check_matrix(s).eliminate(&[absent.index()]);
                assert_eq!((left.rows(), sum(left.row(0))), (1, 0));
                for role in (0..g.raid_disks()).map(Role) {
                    let coefficient = left.get(0, role.index());
                    assert_eq!(
                        coefficient == 0,
                        role == absent,
                        "{g} stripe {s} without {absent}, role {role}"
                    );
                }
            }
        }
    }
}

#[test]
fn refuses_what_no_array_can_have() {
    let ls = Some(Layout::LeftSymmetric);
    let new = Geometry::new;
    assert!(matches!(new(Level::Raid4, ls, 4, 4096, 1 << 20), Err(GeometryError::Layout { .. })));
    assert!(matches!(new(Level::Raid5, None, 4, 4096, 1 << 20), Err(GeometryError::Layout { .. })));
    let n6 = Some(Layout::LeftSymmetric6);
    assert!(matches!(new(Level::Raid5, n6, 4, 4096, 1 << 20), Err(GeometryError::Layout { .. })));
    assert!(matches!(new(Level::Raid6, ls, 3, 4096, 1 << 20), Err(GeometryError::RaidDisks { .. })));
    assert!(matches!(new(Level::Raid6, ls, 256, 4096, 1 << 20), Err(GeometryError::RaidDisks { .. })));
    assert!(matches!(new(Level::Raid5, ls, 1, 4096, 1 << 20), Err(GeometryError::RaidDisks { .. })));
    for chunk in [0, 2048, 12288, 1 << 31] {
        assert!(matches!(new(Level::Raid5, ls, 4, chunk, 1 << 40), Err(GeometryError::Chunk { .. })));
    }
    for component in [0, 4095, u64::MAX] {
        assert!(matches!(new(Level::Raid5, ls, 4, 4096, component), Err(GeometryError::Component { .. })));
    }
    // The largest that fits does not overflow anywhere.
    let large = new(Level::Raid5, ls, 4, 4096, u64::MAX / 4).unwrap();
    let end = large.array_bytes() - 1;
    assert_eq!(large.locate(end).and_then(|l| large.array_offset(l.stripe, l.role, l.offset)), Some(end));
}

#[test]
fn sectors_become_whole_stripes() {
    let g = geometry(Level::Raid5, Some(Layout::LeftSymmetric), 4);
    assert_eq!(g.stripes_of_sectors(0, 1), 0..1);
    assert_eq!(g.stripes_of_sectors(7, 9), 0..2);
    assert_eq!(g.stripes_of_sectors(8, 8), 1..1);
    assert_eq!(g.stripes_of_sectors(9000, u64::MAX), 1000..1000);
}

//! Every small layout of copies against a plain model of md's rules: rows are drawn one by one, and
//! the far copies of a row are that row, rotated. The model knows nothing of bands and stripes.

use pumice_parity::array_layout::Redundancy;
use pumice_raid::copies::{Copies, FarSets};
use pumice_raid::geometry::GeometryError;
use pumice_raid::mirrors::Mirrors;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const CHUNK: u64 = 4096;
const SECTORS: u64 = CHUNK / 512;

#[derive(Debug, Clone, Copy)]
struct Shape {
    near: u64,
    far: u64,
    offset: bool,
    sets: FarSets,
    roles: u64,
    rows: u64,
}

impl Shape {
    fn word(self) -> u32 {
        let sets = match self.sets {
            FarSets::One => 0,
            FarSets::Divided => 1 << 17,
            FarSets::Fixed => 1 << 18,
        };
        (self.near | self.far << 8 | u64::from(self.offset) << 16) as u32 | sets
    }

    /// Roles of a far set.
    fn set(self) -> u64 {
        match self.sets {
            FarSets::One => self.roles,
            FarSets::Divided => self.roles / self.far,
            FarSets::Fixed => self.near * self.far,
        }
    }

    /// The role of the next far copy of a row: `near` places on, within its set. The last set takes
    /// the roles that are left over.
    fn rotated(self, role: u64) -> u64 {
        let set = self.set();
        let last = self.roles / set - 1;
        let number = (role / set).min(last);
        let begin = number * set;
        let size = if number == last { self.roles - begin } else { set };
        begin + (role - begin + self.near) % size
    }

    /// The places, as role and row, of every chunk that has all its copies.
    fn chunks(self) -> BTreeMap<u64, Vec<(u64, u64)>> {
        let section = self.rows / self.far;
        let mut out: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for row in 0..section {
            for role in 0..self.roles {
                // Row by row, each chunk `near` times.
                let chunk = (row * self.roles + role) / self.near;
                let mut at = role;
                for copy in 0..self.far {
                    let place = if self.offset { row * self.far + copy } else { copy * section + row };
                    out.entry(chunk).or_default().push((at, place));
                    at = self.rotated(at);
                }
            }
        }
        out.retain(|_, places| places.len() as u64 == self.near * self.far);
        out
    }

    /// Returns whether md itself cannot keep such an array: copies on one member, or a near copy
    /// that wraps into rows, or sets, of others.
    fn is_unsound(self) -> bool {
        let members =
            |places: &Vec<(u64, u64)>| places.iter().map(|(role, _)| *role).collect::<BTreeSet<_>>();
        let shared = self.chunks().values().any(|places| members(places).len() < places.len());
        let wraps = self.offset && !self.roles.is_multiple_of(self.near);
        let straddles =
            self.near > 1 && !self.roles.is_multiple_of(self.set()) && self.roles / self.set() > 1;
        shared || wraps || straddles
    }
}

fn shapes() -> impl Iterator<Item = Shape> {
    let numbers =
        (2..=8).flat_map(|roles| (1..=3).flat_map(move |near| (1..=3).map(move |far| (roles, near, far))));
    let fitting = numbers.filter(|(roles, near, far)| near * far > 1 && near * far <= *roles);
    fitting.flat_map(|(roles, near, far)| {
        let sets = [FarSets::One, FarSets::Divided, FarSets::Fixed];
        let kinds = [false, true].into_iter().flat_map(move |offset| sets.map(|sets| (offset, sets)));
        kinds.flat_map(move |(offset, sets)| {
            (far..=13).map(move |rows| Shape { near, far, offset, sets, roles, rows })
        })
    })
}

fn made(shape: Shape) -> Result<Mirrors, GeometryError> {
    let copies = Copies::from_word(shape.word()).unwrap();
    Mirrors::raid10(copies, shape.roles as u16, CHUNK, shape.rows * CHUNK)
}

/// One stripe, as a list of ranges.
fn one(stripe: u64) -> Vec<Range<u64>> {
    std::iter::once(stripe..stripe + 1).collect()
}

#[test]
fn every_chunk_lies_where_the_rows_say() {
    let mut seen = 0;
    for shape in shapes() {
        let Ok(mirrors) = made(shape) else { continue };
        let (layout, expected) = (mirrors.layout(), shape.chunks());
        assert_eq!(mirrors.array_bytes(), expected.len() as u64 * CHUNK, "{shape:?}");
        assert_eq!(layout.stripes(), expected.len() as u64, "{shape:?}");
        let mut cells = BTreeSet::new();
        let mut chunks = BTreeSet::new();
        for stripe in 0..layout.stripes() {
            let roles = 0..shape.roles as usize;
            let places = roles.filter_map(|role| Some((role as u64, layout.place(stripe, role)? / CHUNK)));
            let places: BTreeSet<(u64, u64)> = places.collect();
            let addresses: BTreeSet<Option<u64>> =
                places.iter().map(|(role, _)| layout.array_offset(stripe, *role as usize, 0)).collect();
            let [Some(address)] = addresses.into_iter().collect::<Vec<_>>()[..] else {
                panic!("{shape:?} {stripe}: copies with several addresses")
            };
            let chunk = address / CHUNK;
            assert_eq!(places, expected[&chunk].iter().copied().collect(), "{shape:?} chunk {chunk}");
            assert!(chunks.insert(chunk), "{shape:?} chunk {chunk} twice");
            assert!(places.iter().all(|place| cells.insert(*place)), "{shape:?}: a cell twice");
            let class = layout.class(stripe);
            assert_eq!(class.redundancy(), &Redundancy::Copies);
            assert_eq!(class.check().rows() as u64, shape.near * shape.far - 1);
            // Backwards: from the array's address and from each member's.
            let of_chunk = |at: u64| at * SECTORS..(at + 1) * SECTORS;
            assert_eq!(mirrors.stripes_of_array(of_chunk(chunk)), one(stripe), "{shape:?}");
            for (role, row) in places {
                let found = mirrors.stripes_of_member(role as usize, of_chunk(row));
                assert_eq!(found, one(stripe), "{shape:?} role {role} row {row}");
            }
        }
        seen += 1;
    }
    assert!(seen > 1000, "{seen} layouts are few");
}

#[test]
fn what_is_refused_is_unsound_and_what_mdadm_makes_is_not_refused() {
    let (mut refused, mut offsets) = (0, 0);
    for shape in shapes() {
        match made(shape) {
            Ok(_) => {}
            Err(GeometryError::Copies { why, .. }) => {
                assert!(shape.is_unsound(), "{shape:?}: {why}");
                let of_mdadm = shape.sets == FarSets::One && (shape.near == 1 || shape.far == 1);
                assert!(!of_mdadm, "{shape:?}: {why}");
                refused += 1;
                if shape.offset && !shape.roles.is_multiple_of(shape.near) {
                    assert!(why.contains("offset"), "{shape:?}: {why}");
                    offsets += 1;
                }
            }
            Err(other) => panic!("{shape:?}: {other}"),
        }
        let wraps = shape.offset && shape.far > 1 && !shape.roles.is_multiple_of(shape.near);
        assert!(!wraps || made(shape).is_err(), "{shape:?}");
    }
    assert!(refused > 50 && offsets > 10, "{refused} refused, {offsets} for their offset copies");
}

//! Ten kinds of damage, as they happen to drives.

use super::world::{CHUNK, World};
use pumice_base::units::{Role, StripeIndex};
use pumice_host::finding::{Finding, Verdict};
use pumice_parity::gf;
use pumice_service::failure::Failure;

/// Bytes of a block.
const BLOCK: usize = 4096;

/// One inconsistent place.
#[derive(Debug, Clone)]
pub(super) struct Place {
    stripe: u64,
    start: usize,
    len: usize,
    verdict: Verdict,
    member: Option<Role>,
}

impl Place {
    /// Returns whether a finding is this place: the right stripe, member and verdict, no byte
    /// outside.
    pub(super) fn is(&self, finding: &Finding) -> bool {
        let (first, end) = (finding.chunk_offset, finding.chunk_offset + finding.length);
        finding.stripe == self.stripe
            && finding.verdict == self.verdict
            && finding.member == self.member.map(|role| role.0)
            && first >= self.start as u64
            && end <= (self.start + self.len) as u64
    }
}

/// A kind of damage.
#[derive(Debug, Clone)]
pub(super) struct Planted {
    pub(super) words: &'static str,
    pub(super) expected: &'static str,
    pub(super) can_be_located: bool,
    pub(super) places: Vec<Place>,
}

/// Stripes whose data was overwritten, in part, by a host that also updated P and Q: stripe, data
/// index, offset in the chunk.
const OVERWRITTEN: [(u64, usize, usize); 2] = [(120, 5, 8192), (140, 4, 16384)];

/// The stripe with two members damaged in one block.
const TWO_MEMBERS: u64 = 73;

/// The new data of such a write.
fn new_data(stripe: u64) -> Vec<u8> {
    (0..BLOCK).map(|i| (i as u64 * 31 + stripe * 7) as u8).collect()
}

/// Contents that a stripe should have after the demo's writes.
fn intended(world: &World, stripe: u64) -> Vec<(Role, Vec<u8>)> {
    let mut content = world.content(stripe);
    for (_, index, at) in OVERWRITTEN.into_iter().filter(|(s, ..)| *s == stripe) {
        let map = world.geometry().stripe(StripeIndex(stripe));
        let new = new_data(stripe);
        let coefficient = gf::exp(usize::from(map.exponents[index]));
        let old = content.iter().find(|(role, _)| *role == map.data[index]).expect("a member").1
            [at..at + BLOCK]
            .to_vec();
        for (role, chunk) in &mut content {
            for i in 0..BLOCK {
                let change = old[i] ^ new[i];
                if *role == map.data[index] {
                    chunk[at + i] = new[i];
                } else if *role == map.p {
                    chunk[at + i] ^= change;
                } else if Some(*role) == map.q {
                    chunk[at + i] ^= gf::mul(coefficient, change);
                }
            }
        }
    }
    content
}

/// Chunks that are not what they should be after the demo's writes, but for those of stripes with
/// damage in `left`.
pub(super) fn differences(world: &World, left: &[&Planted]) -> Result<usize, Failure> {
    let excused = |stripe| left.iter().any(|kind| kind.places.iter().any(|place| place.stripe == stripe));
    let mut count = 0;
    for stripe in (0..world.stripes()).filter(|stripe| !excused(*stripe)) {
        for (role, chunk) in intended(world, stripe) {
            count += usize::from(world.read(role, stripe, 0, CHUNK)? != chunk);
        }
    }
    Ok(count)
}

struct Vandal<'w> {
    world: &'w World,
}

impl Vandal<'_> {
    fn role(&self, stripe: u64, index: usize) -> Role {
        self.world.geometry().stripe(StripeIndex(stripe)).data[index]
    }

    /// Changes bytes on a member; every byte of the range becomes another.
    fn change(&self, role: Role, stripe: u64, at: usize, len: usize) -> Result<(), Failure> {
        let mut bytes = self.world.read(role, stripe, at, len)?;
        bytes.iter_mut().enumerate().for_each(|(i, b)| *b ^= (i % 255) as u8 + 1);
        self.world.write(role, stripe, at, &bytes)
    }

    fn member(&self, stripe: u64, index: usize, start: usize, len: usize) -> Place {
        let member = Some(self.role(stripe, index));
        Place { stripe, start, len, verdict: Verdict::Member, member }
    }

    /// Writes a stripe as it should be: data, P and Q.
    fn restore(&self, stripe: u64) -> Result<(), Failure> {
        for (role, chunk) in intended(self.world, stripe) {
            self.world.write(role, stripe, 0, &chunk)?;
        }
        Ok(())
    }

    /// A block of a member as it was before the host's overwrite.
    fn stale(&self, stripe: u64, index: usize, at: usize) -> Result<(), Failure> {
        let role = self.role(stripe, index);
        let before = self.world.content(stripe);
        let chunk = &before.iter().find(|(r, _)| *r == role).expect("a member").1;
        self.world.write(role, stripe, at, &chunk[at..at + BLOCK])
    }
}

/// Plants all ten.
pub(super) fn plant(world: &World) -> Result<Vec<Planted>, Failure> {
    let v = Vandal { world };
    // The damage that no repair takes away would be taken away by doing it again.
    for stripe in OVERWRITTEN.map(|(stripe, ..)| stripe).into_iter().chain([TWO_MEMBERS]) {
        v.restore(stripe)?;
    }
    let located = |words, places| Planted { words, expected: "located", can_be_located: true, places };
    let mut out = small(&v)?;
    let parity = |stripe, verdict, role| Place { stripe, start: 4096, len: 300, verdict, member: Some(role) };
    let map = world.geometry().stripe(StripeIndex(44));
    v.change(map.p, 44, 4096, 300)?;
    out.push(located("P", vec![parity(44, Verdict::P, map.p)]));
    let map = world.geometry().stripe(StripeIndex(58));
    let q = map.q.expect("RAID-6 has Q");
    v.change(q, 58, 4096, 300)?;
    out.push(located("Q", vec![parity(58, Verdict::Q, q)]));
    v.change(v.role(TWO_MEMBERS, 2), TWO_MEMBERS, 12288, 64)?;
    v.change(v.role(TWO_MEMBERS, 9), TWO_MEMBERS, 12288, 200)?;
    out.push(Planted {
        words: "two members in one block",
        expected: "ambiguous",
        can_be_located: false,
        places: vec![Place {
            stripe: TWO_MEMBERS,
            start: 12288,
            len: 200,
            verdict: Verdict::Ambiguous,
            member: None,
        }],
    });
    // The same bytes in two stripes of a batch: a plain XOR across stripes would not see them.
    for stripe in [90, 97] {
        v.change(v.role(stripe, 7), stripe, 20480, 512)?;
    }
    out.push(located(
        "the same damage in two stripes",
        [90, 97].map(|s| v.member(s, 7, 20480, 512)).to_vec(),
    ));
    // The host wrote data, P and Q; the drive said yes to the data and kept the old.
    let (stripe, index, at) = OVERWRITTEN[0];
    v.stale(stripe, index, at)?;
    out.push(located("a lost write", vec![v.member(stripe, index, at, BLOCK)]));
    // The same, and the new data went to the place of another block.
    let (stripe, index, at) = OVERWRITTEN[1];
    v.stale(stripe, index, at)?;
    let role = v.role(stripe, index);
    world.write(role, 146, at, &new_data(stripe))?;
    let victim = Place { stripe: 146, start: at, len: BLOCK, verdict: Verdict::Member, member: Some(role) };
    out.push(located("a misdirected write", vec![v.member(stripe, index, at, BLOCK), victim]));
    // Two blocks of one drive in each other's place.
    let role = v.role(160, 0);
    let (a, b) = (world.read(role, 160, 0, BLOCK)?, world.read(role, 165, 4096, BLOCK)?);
    world.write(role, 160, 0, &b)?;
    world.write(role, 165, 4096, &a)?;
    let swapped =
        |stripe, start| Place { stripe, start, len: BLOCK, verdict: Verdict::Member, member: Some(role) };
    out.push(located("two swapped blocks", vec![swapped(160, 0), swapped(165, 4096)]));
    Ok(out)
}

/// A bit, a sector, a chunk.
fn small(v: &Vandal<'_>) -> Result<Vec<Planted>, Failure> {
    let located = |words, places| Planted { words, expected: "located", can_be_located: true, places };
    let role = v.role(5, 3);
    let bit = v.world.read(role, 5, 12345, 1)?[0] ^ 4;
    v.world.write(role, 5, 12345, &[bit])?;
    v.change(v.role(17, 20), 17, 8192, 512)?;
    v.world.write(v.role(31, 11), 31, 0, &vec![0; CHUNK])?;
    Ok(vec![
        located("a single bit", vec![v.member(5, 3, 12345, 1)]),
        located("a sector", vec![v.member(17, 20, 8192, 512)]),
        located("a whole chunk, zeroed", vec![v.member(31, 11, 0, CHUNK)]),
    ])
}

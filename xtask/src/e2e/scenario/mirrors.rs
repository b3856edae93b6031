//! Mirrors of md over drives of nodes: made and written to by the kernel while the host scrubs; one
//! copy damaged, found, and repaired if two others agree; judged by the kernel again.
//!
//! Where a copy lies is worked out here from md's description of each layout, not by the code under
//! test.

use super::{Bench, MIB, Node};
use crate::e2e::damage::{BLOCK, data_area, turn_round};
use crate::e2e::guest::Guest;
use crate::e2e::scrub::{self, Finding, Pass};
use crate::run::Failed;

const MAKE: &str = include_str!("../../../guest/mirrors.sh");
const AGAIN: &str = include_str!("../../../guest/mirrors-again.sh");
/// Of each of the two nodes.
const DRIVES: usize = 6;
const CHUNK: u64 = 64 << 10;
/// Passes until one is as it should be: what is being written may keep some incomplete.
const PASSES: u32 = 20;

/// Layouts of the copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Raid1,
    Near2,
    Far2,
}

/// An array and its drives in the order of their roles, counted from 0 over both nodes.
struct Mirror {
    kind: Kind,
    /// Name of the list of its drives in the guest's script.
    variable: &'static str,
    /// The guest's device.
    md: &'static str,
    drives: &'static [usize],
}

/// Each has members on both nodes.
const MIRRORS: [Mirror; 3] = [
    Mirror { kind: Kind::Raid1, variable: "one", md: "md1", drives: &[0, 6, 1] },
    Mirror { kind: Kind::Near2, variable: "near", md: "md2", drives: &[2, 7, 3, 8, 4] },
    Mirror { kind: Kind::Far2, variable: "far", md: "md3", drives: &[5, 9, 10, 11] },
];

impl Mirror {
    fn copies(&self) -> usize {
        if self.kind == Kind::Raid1 { 3 } else { 2 }
    }

    /// Bytes of the array, whose members give `size` each.
    fn bytes(&self, size: u64) -> u64 {
        let (rows, members) = (size / CHUNK, self.drives.len() as u64);
        match self.kind {
            Kind::Raid1 => size,
            Kind::Near2 => rows * members / 2 * CHUNK,
            Kind::Far2 => rows / 2 * members * CHUNK,
        }
    }

    /// The role, and the place in its data area, of each copy of an address of the array.
    fn places(&self, size: u64, address: u64) -> Vec<(usize, u64)> {
        let (chunk, within, members) = (address / CHUNK, address % CHUNK, self.drives.len() as u64);
        let at = |role: u64, row: u64| (usize::try_from(role).expect("few members"), row * CHUNK + within);
        match self.kind {
            Kind::Raid1 => (0..self.drives.len()).map(|role| (role, address)).collect(),
            Kind::Near2 => (0..2).map(|j| chunk * 2 + j).map(|p| at(p % members, p / members)).collect(),
            Kind::Far2 => {
                (0..2).map(|k| at((chunk + k) % members, chunk / members + k * (size / CHUNK / 2))).collect()
            }
        }
    }
}

/// One copy of one block, turned round.
struct Damage {
    address: u64,
    role: u64,
    /// The file, and its name as the scrub has it.
    path: String,
    served: String,
    offset: u64,
    /// The roles of all copies, in order.
    holders: Vec<u64>,
}

impl Damage {
    /// A copy of the block at this share of the array (in sixteenths).
    fn of(
        mirror: &Mirror,
        drives: &[String],
        served: &[String],
        part: u64,
        copy: usize,
    ) -> Result<Self, Failed> {
        let path = |role: usize| &drives[mirror.drives[role]];
        let (_, size) = data_area(path(0))?;
        let address = mirror.bytes(size) * part / 16 / BLOCK * BLOCK;
        let places = mirror.places(size, address);
        let (role, place) = places[copy];
        let mut holders: Vec<u64> = places.iter().map(|(role, _)| *role as u64).collect();
        holders.sort_unstable();
        Ok(Self {
            address,
            role: role as u64,
            path: path(role).clone(),
            served: served[mirror.drives[role]].clone(),
            offset: data_area(path(role))?.0 + place,
            holders,
        })
    }

    /// Returns whether a finding says of it all that can be said: of two copies not which one it
    /// is.
    fn is_named_by(&self, finding: &Finding) -> bool {
        let named = match self.holders.len() {
            2 => finding.verdict == "copies_differ" && finding.members == self.holders,
            _ => {
                finding.verdict == "copy"
                    && finding.member == Some(self.role)
                    && finding.device.as_ref() == Some(&self.served)
                    && finding.device_offset == Some(self.offset)
            }
        };
        named && finding.array_offset == Some(self.address) && finding.length == BLOCK
    }
}

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failed> {
    let drives: Vec<String> =
        (0..2 * DRIVES).map(|n| bench.drive(&format!("member{n}"), 24 * MIB)).collect::<Result<_, _>>()?;
    let nodes = start(bench, &drives)?;
    let mut guest = bench.guest(&bench.machine(true, 600), MAKE, &place(&nodes))?;
    guest.reach("load")?;
    let served = served(&nodes);
    let planted = under_load(bench, &drives, &served)?;
    let report = finish(guest)?;

    for (mirror, damages) in MIRRORS.iter().zip(&planted) {
        mend(bench, mirror, &of(mirror, &served), damages)?;
    }
    let mut variables = place(&nodes);
    for key in ["quiet_md1", "sum_md1"] {
        variables.push((key, report.get(key)?.to_owned()));
    }
    let report = bench.guest(&bench.machine(false, 300), AGAIN, &variables)?.finish()?;
    for (mirror, damages) in MIRRORS.iter().zip(&planted) {
        let found = report.number(&format!("mismatches_{}", mirror.md))?;
        // md counts all sectors of a request, of 64 KiB here, for a copy that differs from the
        // first.
        let wanted = if mirror.copies() == 2 { 128 * damages.len() as u64 } else { 0 };
        if found != wanted {
            let md = mirror.md;
            return Err(Failed(format!(
                "the kernel counts {found} sectors of {md} that do not match, not {wanted}"
            )));
        }
        if mirror.copies() == 2 {
            // Turned round once more, they are what they were.
            damages.iter().try_for_each(|damage| turn_round(&damage.path, damage.offset))?;
        }
        let pass = scrub::still(bench.binary, &bench.folder.join("state"), &of(mirror, &served))?;
        as_it_should_be(&pass, &[]).map_err(|why| Failed(format!("{}, at the end: {why}", mirror.md)))?;
    }
    bench.steps.done("the kernel counts what was left alone, and nothing else; put back, all are clean");
    nodes.into_iter().try_for_each(Node::stop)
}

fn start(bench: &Bench<'_>, drives: &[String]) -> Result<Vec<Node>, Failed> {
    let parts = drives.chunks(DRIVES).enumerate();
    parts.map(|(n, drives)| bench.node(&format!("mirrors{n}"), 512, drives.to_vec())).collect()
}

/// Settings for both scripts.
fn place(nodes: &[Node]) -> Vec<(&'static str, String)> {
    let ports: Vec<String> = nodes.iter().map(|node| node.port.to_string()).collect();
    let nqns: Vec<String> = (0..nodes.len()).map(|n| Bench::nqn(&format!("mirrors{n}"))).collect();
    let mut out = vec![("ports", ports.join(" ")), ("nqns", nqns.join(" ")), ("each", DRIVES.to_string())];
    for mirror in &MIRRORS {
        let numbers: Vec<String> = mirror.drives.iter().map(|drive| (drive + 1).to_string()).collect();
        out.push((mirror.variable, numbers.join(" ")));
    }
    out
}

/// Names of the drives in a scrub.
fn served(nodes: &[Node]) -> Vec<String> {
    let of_node = |node: &Node| {
        let port = node.port;
        (1..=DRIVES).map(move |nsid| format!("nvme://127.0.0.1:{port}/{nsid}"))
    };
    nodes.iter().flat_map(of_node).collect()
}

fn of(mirror: &Mirror, served: &[String]) -> Vec<String> {
    mirror.drives.iter().map(|drive| served[*drive].clone()).collect()
}

/// Scrubs each array while it is written to, damages it, and scrubs it again. The damage of each.
fn under_load(bench: &Bench<'_>, drives: &[String], served: &[String]) -> Result<Vec<Vec<Damage>>, Failed> {
    let mut planted = Vec::new();
    for mirror in &MIRRORS {
        let passes = until_right(bench, mirror, served, &[])?;
        bench.steps.done(&format!("{}: clean under load, in {passes} scrubs", mirror.md));
        // Of three copies the first one too, which md would take for the good one.
        let damages = match mirror.kind {
            Kind::Raid1 => vec![(14, 0), (15, 2)],
            Kind::Near2 => vec![(14, 1)],
            Kind::Far2 => vec![(15, 0)],
        };
        let damages: Vec<Damage> = damages
            .into_iter()
            .map(|(part, copy)| Damage::of(mirror, drives, served, part, copy))
            .collect::<Result<_, _>>()?;
        damages.iter().try_for_each(|damage| turn_round(&damage.path, damage.offset))?;
        let passes = until_right(bench, mirror, served, &damages)?;
        bench.steps.done(&format!("{}: damage found under load, in {passes} scrubs", mirror.md));
        planted.push(damages);
    }
    Ok(planted)
}

/// Scrubs until a pass is complete and says what it should; none may say anything else.
fn until_right(
    bench: &Bench<'_>,
    mirror: &Mirror,
    served: &[String],
    damages: &[Damage],
) -> Result<u32, Failed> {
    let state = bench.folder.join("state");
    for number in 1..=PASSES {
        let pass = scrub::still(bench.binary, &state, &of(mirror, served))?;
        if let Some(wrong) = pass.findings.iter().find(|f| !damages.iter().any(|d| d.is_named_by(f))) {
            return Err(Failed(format!("{}: a false finding, or a wrong verdict: {wrong:?}", mirror.md)));
        }
        if as_it_should_be(&pass, damages).is_ok() {
            return Ok(number);
        }
    }
    Err(Failed(format!("{}: no pass of {PASSES} was complete and right", mirror.md)))
}

/// A complete pass that names each damage, and nothing else, with the result that goes with it.
fn as_it_should_be(pass: &Pass, damages: &[Damage]) -> Result<(), String> {
    let wanted = if damages.is_empty() { "clean" } else { "copies_differ" };
    let each = damages.iter().all(|damage| pass.findings.iter().any(|finding| damage.is_named_by(finding)));
    match pass.result == wanted
        && pass.checked == pass.stripes
        && pass.findings.len() == damages.len()
        && each
    {
        true => Ok(()),
        false => {
            Err(format!("{}, {} of {} stripes, {:?}", pass.result, pass.checked, pass.stripes, pass.findings))
        }
    }
}

/// Lets the guest stop its load and its arrays.
fn finish(mut guest: Guest) -> Result<crate::e2e::protocol::Report, Failed> {
    guest.go()?;
    guest.finish()
}

/// Repairs an array that nobody uses: what two copies agree on is written over the third; two
/// copies that differ stay as they are.
fn mend(bench: &Bench<'_>, mirror: &Mirror, drives: &[String], damages: &[Damage]) -> Result<(), Failed> {
    let wrong = |why: String| Failed(format!("{}, repairing: {why}", mirror.md));
    let state = bench.folder.join("state");
    let pass = scrub::repair(bench.binary, &state, "strong", drives)?;
    as_it_should_be(&pass, damages).map_err(wrong)?;
    let repaired = pass.findings.iter().filter(|finding| finding.repaired).count();
    let (wanted, left): (usize, &[Damage]) =
        if mirror.copies() == 2 { (0, damages) } else { (damages.len(), &[]) };
    if repaired != wanted {
        return Err(wrong(format!("{repaired} repaired, not {wanted}: {:?}", pass.findings)));
    }
    let pass = scrub::still(bench.binary, &state, drives)?;
    as_it_should_be(&pass, left).map_err(wrong)?;
    bench.steps.done(&format!("{}: {repaired} of {} repaired", mirror.md, damages.len()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Kind, MIRRORS};

    #[test]
    fn copies_lie_as_md_describes_it() {
        let [one, near, far] = &MIRRORS;
        assert!(one.kind == Kind::Raid1 && near.kind == Kind::Near2 && far.kind == Kind::Far2);
        assert_eq!(one.places(1 << 20, 4096), [(0, 4096), (1, 4096), (2, 4096)]);
        // Five members: chunk 2 lies on the last member of a row and the first one of the next.
        assert_eq!(near.places(6 * CHUNK, 2 * CHUNK + 7), [(4, 7), (0, CHUNK + 7)]);
        assert_eq!(near.bytes(3 * CHUNK), 7 * CHUNK);
        // Four members, four rows: the second half begins at row 2.
        assert_eq!(far.places(4 * CHUNK, 3 * CHUNK), [(3, 0), (0, 2 * CHUNK)]);
        assert_eq!(far.bytes(5 * CHUNK), 8 * CHUNK);
    }
}

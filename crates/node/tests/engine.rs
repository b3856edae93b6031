//! The parity engine against plain arithmetic, over every mode, shape and placement.

use pumice_blockdev::{BlockDevice, FaultyDevice, MemoryDevice};
use pumice_node::{LocalNode, NodeOptions, Peers};
use pumice_offload::{
    DriveId, DriveMemory, ErrorKind, Grant, MemoryAddress, Mode, PaceRequest, Paced, ParityCommand,
    ParityEngine, ParityResult, Rule, Source, Transfer, Unread, Unreadable, Window,
};
use pumice_parity::check_matrix::CheckMatrix;
use pumice_parity::fingerprint::{Decoded, PowerSums, stripe_key};
use pumice_parity::gf;
use pumice_parity::seed::Seed;
use pumice_parity::weights::draw;
use std::sync::Arc;
use std::time::Duration;

const STRIPES: u64 = 13;

/// A rotating k+2: class c has P on member (c + k) mod n, Q on the next, data after it.
struct World {
    chunk: u32,
    base: u64,
    classes: Vec<CheckMatrix>,
    members: Vec<Vec<u8>>,
}

fn noise(mut x: u64) -> impl FnMut() -> u8 {
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    }
}

impl World {
    fn new(k: usize, chunk: u32) -> Self {
        let n = k + 2;
        let base = 8192_u64;
        let mut next = noise(0x1234_5678_9ABC_DEF1);
        let size = base as usize + chunk as usize * STRIPES as usize + 4096;
        let mut members: Vec<Vec<u8>> = (0..n).map(|_| (0..size).map(|_| next()).collect()).collect();
        let mut classes = Vec::new();
        for class in 0..n {
            let (p, q) = ((class + k) % n, (class + k + 1) % n);
            let mut rows = vec![0; 2 * n];
            for slot in 0..k {
                let member = (q + 1 + slot) % n;
                rows[member] = 1;
                rows[n + member] = gf::exp(slot);
            }
            rows[p] = 1;
            rows[n + q] = 1;
            classes.push(CheckMatrix::new(2, n, &rows).unwrap());
        }
        for s in 0..STRIPES as usize {
            let class = s % n;
            let (p, q) = ((class + k) % n, (class + k + 1) % n);
            for at in 0..chunk as usize {
                let place = base as usize + s * chunk as usize + at;
                let (mut sp, mut sq) = (0, 0);
                for slot in 0..k {
                    let x = members[(q + 1 + slot) % n][place];
                    sp ^= x;
                    sq ^= gf::mul(gf::exp(slot), x);
                }
                members[p][place] = sp;
                members[q][place] = sq;
            }
        }
        Self { chunk, base, classes, members }
    }

    fn damage(&mut self, member: usize, stripe: u64, at: usize, e: u8) {
        self.members[member][self.base as usize + stripe as usize * self.chunk as usize + at] ^= e;
    }

    /// Nodes with contiguous runs of members, and each one's members.
    fn nodes(&self, nodes: usize, workers: usize) -> Vec<(LocalNode, Vec<usize>)> {
        let peers = Peers::new();
        let n = self.members.len();
        (0..nodes)
            .map(|i| {
                let mine: Vec<usize> = (0..n).filter(|m| m * nodes / n == i).collect();
                let devices = mine.iter().map(|m| {
                    let device = MemoryDevice::new(&format!("m{m}"), self.members[*m].len() as u64);
                    device.write_at(0, &self.members[*m]).unwrap();
                    Arc::new(device) as Arc<dyn BlockDevice>
                });
                let options = NodeOptions { workers, ..NodeOptions::default() };
                (LocalNode::new(format!("n{i}"), devices.collect(), &peers, options), mine)
            })
            .collect()
    }

    fn command(
        &self,
        mine: &[usize],
        stripes: std::ops::Range<u64>,
        window: Window,
        mode: Mode,
    ) -> ParityCommand {
        ParityCommand {
            unpaced: false,
            sources: (0..mine.len())
                .map(|i| Source::Media { drive: DriveId(i as u32 + 1), base: self.base })
                .collect(),
            chunk: self.chunk,
            window,
            stripes,
            rule: Rule::for_columns(&self.classes, mine).unwrap(),
            mode,
        }
    }

    fn whole(&self) -> Window {
        Window { start: 0, len: self.chunk }
    }

    /// Row `row` of a stripe over some members, by definition.
    fn row(&self, members: &[usize], weights: &[u8], stripe: u64, window: Window) -> Vec<u8> {
        let class = &self.classes[stripe as usize % self.classes.len()];
        let combined = class.combine(weights);
        (0..window.len as usize)
            .map(|at| {
                let place =
                    self.base as usize + stripe as usize * self.chunk as usize + window.start as usize + at;
                members.iter().fold(0, |sum, m| sum ^ gf::mul(combined[*m], self.members[*m][place]))
            })
            .collect()
    }
}

fn at(offset: u64) -> MemoryAddress {
    MemoryAddress { drive: DriveId(1), offset }
}

fn ones(result: &ParityResult) -> Vec<u64> {
    result.nonzero.ones().collect()
}

#[test]
fn check_names_the_bad_stripes_and_the_byte_range() {
    for (k, chunk) in [(3, 4096), (6, 65536), (22, 65536), (6, 1 << 20)] {
        let mut world = World::new(k, chunk);
        for workers in [1, 2] {
            let nodes = world.nodes(1, workers);
            let all: Vec<usize> = (0..k + 2).collect();
            let command = world.command(&all, 0..STRIPES, world.whole(), Mode::Check);
            let clean = nodes[0].0.parity(&command).unwrap();
            assert_eq!(ones(&clean), []);
            assert_eq!(clean.range, None);
            assert_eq!(clean.moved.media_read, u64::from(chunk) * STRIPES * (k as u64 + 2));
        }
        world.damage(0, 4, 17, 1);
        world.damage(k + 1, 9, chunk as usize - 1, 0x80);
        let nodes = world.nodes(1, 2);
        let all: Vec<usize> = (0..k + 2).collect();
        let command = world.command(&all, 2..STRIPES, world.whole(), Mode::Check);
        let found = nodes[0].0.parity(&command).unwrap();
        assert_eq!(ones(&found), [2, 7]);
        assert_eq!(found.range, Some((17, chunk - 1)));
    }
}

#[test]
fn generate_and_interims_leave_the_rows_in_memory() {
    let mut world = World::new(6, 65536);
    world.damage(2, 5, 1000, 7);
    let seed = Seed::from_number(5);
    for window in [world.whole(), Window { start: 4096, len: 12288 }, Window { start: 512, len: 1024 }] {
        let nodes = world.nodes(3, 2);
        for (node, mine) in &nodes {
            let command = world.command(mine, 4..7, window, Mode::Generate { into: at(4096) });
            node.parity(&command).unwrap();
            let interims = Mode::Interims { into: at(8 << 20), seed: seed.clone(), accumulators: 3 };
            node.parity(&world.command(mine, 4..7, window, interims)).unwrap();
            let mut bytes = vec![0; window.len as usize];
            for (r, stripe) in (4..7).enumerate() {
                for row in 0..2 {
                    let offset = 4096 + (r as u64 * 2 + row) * u64::from(window.len);
                    node.memory_read(at(offset), &mut bytes).unwrap();
                    let weights = [u8::from(row == 0), u8::from(row == 1)];
                    assert_eq!(bytes, world.row(mine, &weights, stripe, window), "stripe {stripe} row {row}");
                }
                for t in 0..3 {
                    let offset = (8 << 20) + (r as u64 * 3 + t) * u64::from(window.len);
                    node.memory_read(at(offset), &mut bytes).unwrap();
                    let weights = draw(&seed, stripe, t as u32, command.rule.guard()).unwrap();
                    assert_eq!(
                        bytes,
                        world.row(mine, &weights, stripe, window),
                        "stripe {stripe} interim {t}"
                    );
                }
            }
        }
    }
}

#[test]
fn accumulators_of_all_nodes_sum_to_zero_only_while_every_stripe_holds() {
    for damaged in [false, true] {
        let mut world = World::new(6, 16384);
        if damaged {
            world.damage(2, 5, 1000, 7);
            world.damage(2, 6, 1000, 7);
        }
        let nodes = world.nodes(3, 2);
        let mode = Mode::Accumulate { into: at(0), seed: Seed::from_number(8), accumulators: 2 };
        for (i, (node, mine)) in nodes.iter().enumerate() {
            node.parity(&world.command(mine, 0..STRIPES, world.whole(), mode.clone())).unwrap();
            if i > 0 {
                let transfer = Transfer {
                    from: at(0),
                    len: 2 * 16384,
                    peer: "n0".into(),
                    to: at(i as u64 * 2 * 16384),
                    grant: Grant::NONE,
                };
                assert_eq!(node.transfer(&transfer).unwrap().moved.node_to_node, 2 * 16384);
            }
        }
        let sum = ParityCommand {
            unpaced: false,
            sources: (0..3).map(|i| Source::Memory { address: at(i * 2 * 16384) }).collect(),
            chunk: 16384,
            window: Window { start: 0, len: 16384 },
            stripes: 0..2,
            rule: Rule::sum(3),
            mode: Mode::Check,
        };
        let result = nodes[0].0.parity(&sum).unwrap();
        assert_eq!(result.range, damaged.then_some((1000, 1000)));
        assert_eq!(ones(&result).is_empty(), !damaged);
    }
}

/// Many sources in memory, with windows that are folded in more than one section: as plain
/// arithmetic says, in every mode.
#[test]
fn long_windows_in_memory_are_folded_whole() {
    const SOURCES: usize = 200;
    let (len, stripes) = (50_000_u32, 2);
    let size = SOURCES as u64 * stripes * u64::from(len);
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new("m", 4096));
    let options = NodeOptions { memory_bytes: size + (1 << 20), ..NodeOptions::default() };
    let node = LocalNode::new("n", vec![device], &Peers::new(), options);
    let mut next = noise(7);
    let content: Vec<u8> = (0..size).map(|_| next()).collect();
    node.memory_write(at(0), &content).unwrap();
    let of = |source: usize, stripe: usize| &content[(source * 2 + stripe) * len as usize..][..len as usize];
    let command = |mode| ParityCommand {
        unpaced: false,
        sources: (0..SOURCES)
            .map(|i| Source::Memory { address: at(i as u64 * stripes * u64::from(len)) })
            .collect(),
        chunk: len,
        window: Window { start: 0, len },
        stripes: 0..stripes,
        rule: Rule::sum(SOURCES),
        mode,
    };
    let mut sums = vec![0; 2 * len as usize];
    for (stripe, sum) in sums.chunks_mut(len as usize).enumerate() {
        for source in 0..SOURCES {
            sum.iter_mut().zip(of(source, stripe)).for_each(|(a, b)| *a ^= b);
        }
    }
    let result = node.parity(&command(Mode::Generate { into: at(size) })).unwrap();
    let mut out = vec![0; sums.len()];
    node.memory_read(at(size), &mut out).unwrap();
    assert!(out == sums);
    let first = (0..len).find(|i| (0..2).any(|s| sums[(s * len + i) as usize] != 0)).unwrap();
    let last = (0..len).rfind(|i| (0..2).any(|s| sums[(s * len + i) as usize] != 0)).unwrap();
    assert_eq!(result.range, Some((first, last)));
    // A source that undoes the sum, but for one byte near the end of the second window.
    let mut undo = out;
    undo.iter_mut().zip(&content).for_each(|(a, b)| *a ^= b);
    undo[2 * len as usize - 5] ^= 1;
    node.memory_write(at(0), &undo).unwrap();
    let result = node.parity(&command(Mode::Check)).unwrap();
    assert_eq!((result.range, ones(&result)), (Some((len - 5, len - 5)), vec![1]));
}

#[test]
fn fingerprints_of_all_nodes_name_the_bad_stripes() {
    for chunk in [4096, 65536, 1 << 20] {
        let mut world = World::new(6, chunk);
        world.damage(1, 3, 100, 1);
        world.damage(7, 11, chunk as usize - 1, 200);
        let seed = Seed::from_number(77);
        for count in [1, 3] {
            let mut sums = PowerSums::new(2, 8);
            for (node, mine) in &world.nodes(count, 2) {
                let mode = Mode::Fingerprint { seed: seed.clone(), powers: 8 };
                let result = node.parity(&world.command(mine, 2..STRIPES, world.whole(), mode)).unwrap();
                sums.merge(result.fingerprint.as_ref().unwrap());
            }
            let Decoded::Stripes(found) = sums.decode(11, |i| stripe_key(&seed, 2 + u64::from(i))) else {
                panic!("two bad stripes")
            };
            assert_eq!(found.iter().map(|s| s.index).collect::<Vec<_>>(), [1, 9]);
        }
    }
}

#[test]
fn commands_that_make_no_sense_name_their_field() {
    let world = World::new(3, 4096);
    let nodes = world.nodes(1, 1);
    let (node, mine) = &nodes[0];
    let good = world.command(mine, 0..STRIPES, world.whole(), Mode::Check);
    let field = |change: &dyn Fn(&mut ParityCommand)| {
        let mut bad = good.clone();
        change(&mut bad);
        match node.parity(&bad).unwrap_err().kind() {
            ErrorKind::InvalidField(field) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(field(&|c| c.stripes = 5..5), "stripes");
    assert_eq!(field(&|c| c.stripes = 0..STRIPES + 2), "offset");
    assert_eq!(field(&|c| c.stripes = 0..u64::MAX), "stripes");
    assert_eq!(field(&|c| c.window.len = 8192), "window");
    assert_eq!(field(&|c| c.window.start = u32::MAX), "window");
    assert_eq!(field(&|c| c.sources.truncate(1)), "rule");
    assert_eq!(field(&|c| c.sources[0] = Source::Media { drive: DriveId(9), base: 0 }), "drive");
    assert_eq!(field(&|c| c.sources[0] = Source::Media { drive: DriveId(1), base: u64::MAX }), "sources");
    assert_eq!(field(&|c| c.sources[0] = Source::Memory { address: at(0) }), "sources");
    assert_eq!(field(&|c| c.mode = Mode::Generate { into: at(u64::MAX - 5) }), "into");
    let fingerprint = |powers| Mode::Fingerprint { seed: Seed::from_number(0), powers };
    assert_eq!(field(&|c| c.mode = fingerprint(3)), "powers");
    assert_eq!(field(&|c| (c.mode, c.window.start, c.window.len) = (fingerprint(8), 32, 64)), "window");
}

/// Windows that are further apart than they are long, as chunks of a mirror are: the last one may
/// end with the medium.
#[test]
fn a_last_window_may_end_where_the_medium_ends() {
    const SIZE: u64 = 10 * 8192 + 4096 + 512;
    let peers = Peers::new();
    let devices = (0..2).map(|m| {
        let device = MemoryDevice::new(&format!("m{m}"), SIZE);
        device.write_at(SIZE - 1, &[7 - m]).unwrap();
        Arc::new(device) as Arc<dyn BlockDevice>
    });
    let node = LocalNode::new("n", devices.collect(), &peers, NodeOptions::default());
    let command = |base: u64| ParityCommand {
        unpaced: false,
        sources: (1..3).map(|m| Source::Media { drive: DriveId(m), base }).collect(),
        chunk: 8192,
        window: Window { start: 0, len: 4096 },
        stripes: 0..11,
        rule: Rule::for_columns(&[CheckMatrix::new(1, 2, &[1, 1]).unwrap()], &[0, 1]).unwrap(),
        mode: Mode::Check,
    };
    assert_eq!(ones(&node.parity(&command(512)).unwrap()), [10], "the last byte of the medium");
    let refused = node.parity(&command(1024)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidField("offset"), "{refused}");
}

/// At a pace the drives are read one by one in requests of other lengths: the results are the same,
/// holes included, and so is what is left in memory.
#[test]
fn a_pace_changes_no_result() {
    for (k, chunk) in [(3, 4096), (6, 65536), (33, 16384), (1, 5 << 20)] {
        let mut world = World::new(k, chunk);
        world.damage(1, 4, 17, 1);
        world.damage(k, 9, chunk as usize - 1, 0x80);
        let all: Vec<usize> = (0..k + 2).collect();
        let node = || {
            let devices = world.members.iter().enumerate().map(|(m, content)| {
                let device = FaultyDevice::new(&format!("m{m}"), content.clone(), 1);
                if m == 2 {
                    let place = world.base + 6 * u64::from(chunk) + 1024;
                    device.lose(place..place + 512);
                }
                Arc::new(device) as Arc<dyn BlockDevice>
            });
            LocalNode::new(
                "n",
                devices.collect(),
                &Peers::new(),
                NodeOptions { workers: 2, ..NodeOptions::default() },
            )
        };
        let (plain, paced) = (node(), node());
        paced.pace(&PaceRequest { rate: Some(4 << 30), ..PaceRequest::default() }).unwrap();
        let seed = Seed::from_number(3);
        let modes = [
            Mode::Check,
            Mode::Generate { into: at(0) },
            Mode::Interims { into: at(0), seed: seed.clone(), accumulators: 2 },
            Mode::Accumulate { into: at(0), seed: seed.clone(), accumulators: 2 },
            Mode::Fingerprint { seed, powers: 8 },
        ];
        for window in [world.whole(), Window { start: 1024, len: 2048 }] {
            for mode in modes.clone() {
                // Without the stripe that cannot be read, the sums mean something.
                for stripes in [0..6, 7..STRIPES, 2..STRIPES] {
                    let command = world.command(&all, stripes, window, mode.clone());
                    // Rows of five megabytes do not fit memory together.
                    if command.output().is_some_and(|(_, len)| len > 32 << 20) {
                        continue;
                    }
                    let (a, b) = (plain.parity(&command).unwrap(), paced.parity(&command).unwrap());
                    assert_eq!(a.nonzero, b.nonzero, "{command:?}");
                    assert_eq!(a.range, b.range);
                    assert_eq!(a.fingerprint, b.fingerprint);
                    let places = |of: &ParityResult| {
                        of.unreadable.iter().map(|u| (u.source, u.stripe, u.start, u.len)).collect::<Vec<_>>()
                    };
                    assert_eq!(places(&a), places(&b));
                    assert_eq!(a.moved, b.moved);
                    if let Some((into, len)) = command.output() {
                        let [mut x, mut y] = [vec![0; len as usize], vec![0; len as usize]];
                        plain.memory_read(into, &mut x).unwrap();
                        paced.memory_read(into, &mut y).unwrap();
                        assert!(x == y, "{mode:?}");
                    }
                }
            }
        }
        assert_eq!(paced.pace_figures().unwrap().len(), k + 2);
        assert!(paced.pace_figures().unwrap().iter().all(|drive| drive.bytes > 0 && drive.requests > 0));
        assert!(plain.pace_figures().unwrap().is_empty());
    }
}

/// A node of one drive, and a command over it `sources` times.
fn many_sources(sources: usize, content: Vec<u8>) -> (LocalNode, ParityCommand) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::with_content("m", content));
    let node = LocalNode::new("n", vec![device], &Peers::new(), NodeOptions::default());
    let command = ParityCommand {
        unpaced: false,
        sources: vec![Source::Media { drive: DriveId(1), base: 0 }; sources],
        chunk: 4096,
        window: Window { start: 0, len: 4096 },
        stripes: 0..4,
        rule: Rule::sum(sources),
        mode: Mode::Check,
    };
    (node, command)
}

/// More members than a kernel takes at a time, up to as many as a descriptor holds: an even number
/// of equal sources is consistent, an odd number is what one of them is.
#[test]
fn hundreds_of_sources_are_folded() {
    let mut content = vec![0; 4 * 4096];
    content[4096 + 70] = 9;
    for sources in [256, 257, 258, 300, 1919, 1920] {
        let (node, mut command) = many_sources(sources, content.clone());
        let odd = sources % 2 == 1;
        let bad = if odd { vec![1] } else { Vec::new() };
        let result = node.parity(&command).unwrap();
        assert_eq!(result.nonzero.ones().collect::<Vec<_>>(), bad, "{sources}");
        assert_eq!(result.range, odd.then_some((70, 70)));
        let into = MemoryAddress { drive: DriveId(1), offset: 0 };
        command.mode = Mode::Generate { into };
        let result = node.parity(&command).unwrap();
        assert_eq!(result.nonzero.ones().collect::<Vec<_>>(), bad, "{sources}");
        let pace = PaceRequest { slowdown_ns: Some(10_000_000), ..PaceRequest::default() };
        node.pace(&pace).unwrap();
        command.mode = Mode::Check;
        assert_eq!(node.parity(&command).unwrap().nonzero.ones().collect::<Vec<_>>(), bad, "paced {sources}");
    }
}

fn refused(node: &LocalNode, command: &ParityCommand) -> ErrorKind {
    node.parity(command).unwrap_err().kind()
}

/// Weights that nobody can draw, and work without end: refused before anything is done, by the
/// field.
#[test]
fn work_without_end_is_refused() {
    let (node, small) = many_sources(1, vec![0; 4 * 4096]);
    let into = MemoryAddress { drive: DriveId(1), offset: 0 };
    let seed = Seed::from_number(1);
    let weighted = |rows: usize, guard: Vec<Vec<u8>>| ParityCommand {
        unpaced: false,
        rule: Rule::new(rows, 1, vec![1; rows], guard).unwrap(),
        mode: Mode::Accumulate { into, seed: seed.clone(), accumulators: 8 },
        ..small.clone()
    };
    let all: Vec<Vec<u8>> = (0..=255).map(|q| vec![1, q]).chain([vec![0, 1]]).collect();
    assert_eq!(refused(&node, &weighted(2, all.clone())), ErrorKind::InvalidField("guard"));
    let mut next = noise(3);
    let noise: Vec<Vec<u8>> = (0..65_000).map(|_| (0..8).map(|_| next()).collect()).collect();
    assert_eq!(refused(&node, &weighted(8, noise)), ErrorKind::InvalidField("guard"));
    node.parity(&weighted(2, all[..256].to_vec())).unwrap();
    let long = ParityCommand {
        unpaced: false,
        sources: vec![Source::Memory { address: into }; 1920],
        rule: Rule::new(8, 1920, vec![1; 8 * 1920], Vec::new()).unwrap(),
        stripes: 0..1 << 22,
        ..small
    };
    assert_eq!(refused(&node, &long), ErrorKind::InvalidField("stripes"));
}

/// A drive that gives nothing back, in small chunks, many times: no more places are kept than are
/// told, and no stripe that was not folded passes for good.
#[test]
fn unreadable_places_are_bounded_while_they_are_collected() {
    let faulty = FaultyDevice::new("m", vec![0; 1 << 20], 1);
    faulty.lose(0..1 << 20);
    let options = NodeOptions { workers: 3, ..NodeOptions::default() };
    let node = LocalNode::new("n", vec![Arc::new(faulty) as _], &Peers::new(), options);
    for (sources, paced) in [(16, false), (16, true)] {
        let command = ParityCommand {
            unpaced: false,
            sources: vec![Source::Media { drive: DriveId(1), base: 0 }; sources],
            chunk: 64,
            window: Window { start: 0, len: 64 },
            stripes: 0..1 << 14,
            rule: Rule::sum(sources),
            mode: Mode::Check,
        };
        if paced {
            node.pace(&PaceRequest { slowdown_ns: Some(10_000_000), ..PaceRequest::default() }).unwrap();
        }
        let result = node.parity(&command).unwrap();
        // 16 places of each stripe: those of the first 1024 stripes are told.
        let told: Vec<(u64, usize)> = result.unreadable.iter().map(|u| (u.stripe, u.source)).collect();
        let first: Vec<(u64, usize)> = (0..1024).flat_map(|s| (0..sources).map(move |i| (s, i))).collect();
        assert_eq!(told, first);
        assert!(result.nonzero.ones().eq(1023..1 << 14), "all stripes that are not told are suspects");
    }
}

/// A window that is too long for its keys to be kept has the keys of its place all the same.
#[test]
fn keys_of_long_windows_are_those_of_short_ones() {
    const MIB: u32 = 1 << 20;
    let mut next = noise(9);
    let content: Vec<u8> = (0..36 * MIB).map(|_| next()).collect();
    let (node, command) = many_sources(1, content);
    let part = |start, len| {
        let seed = Seed::from_number(7);
        let window = Window { start, len };
        let mode = Mode::Fingerprint { seed, powers: 2 };
        let command =
            ParityCommand { unpaced: false, chunk: 36 * MIB, window, stripes: 0..1, mode, ..command.clone() };
        node.parity(&command).unwrap().fingerprint.unwrap()
    };
    let mut sum = part(0, 10 * MIB + 64);
    sum.merge(&part(10 * MIB + 64, 26 * MIB - 64));
    assert_eq!(sum, part(0, 36 * MIB));
}

/// Bytes that nobody asked for are told from bytes that the medium refused, at a pace and without.
#[test]
fn what_the_medium_refuses_is_told_from_what_nobody_asked_for() {
    let chunk = 128 << 10;
    let world = World::new(3, chunk);
    let all: Vec<usize> = (0..5).collect();
    let places = |error_time: Duration, pace: bool| {
        let devices = world.members.iter().enumerate().map(|(m, content)| {
            let device = FaultyDevice::new(&format!("m{m}"), content.clone(), 1);
            if m == 2 {
                // The first sector of each of 20 blocks.
                for block in 0..20 {
                    let place = world.base + 6 * u64::from(chunk) + block * 4096;
                    device.lose(place..place + 512);
                }
            }
            Arc::new(device) as Arc<dyn BlockDevice>
        });
        let options = NodeOptions { workers: 1, error_time, ..NodeOptions::default() };
        let node = LocalNode::new("n", devices.collect(), &Peers::new(), options);
        if pace {
            node.pace(&PaceRequest { rate: Some(4 << 30), ..PaceRequest::default() }).unwrap();
        }
        let command = world.command(&all, 0..STRIPES, world.whole(), Mode::Check);
        let result = node.parity(&command).unwrap();
        let refused = |u: &&Unreadable| u.why == Unread::Refused;
        assert!(result.unreadable.iter().all(|u| u.source == 2));
        assert!(result.unreadable.iter().filter(refused).all(|u| u.stripe == 6), "{:?}", result.unreadable);
        let bytes = |why| -> u32 { result.unreadable.iter().filter(|u| u.why == why).map(|u| u.len).sum() };
        (bytes(Unread::Refused), bytes(Unread::NotAsked))
    };
    for pace in [false, true] {
        assert_eq!(places(Duration::from_secs(3600), pace), (20 * 4096, 0), "every piece is asked for");
        let (refused, not_asked) = places(Duration::ZERO, pace);
        assert_eq!(refused, 0, "no time for a single refusal");
        assert!(not_asked >= 20 * 4096, "{not_asked}");
    }
}

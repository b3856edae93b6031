use super::*;
use crate::sectors::Missing;
use pumice_offload::{TagFormat, Unread};
use pumice_parity::gf;
use pumice_protect::guard::Guard;
use pumice_protect::origin::Judged;

const LEN: usize = 4096;

/// Tags of a member: `size` bytes a block, made of `of`, or none.
#[derive(Clone, Copy)]
struct Tagging {
    size: u32,
    origin: Origin,
}

/// RAID-6 of 4 + 2, or its P alone: data 0 to 3, P 4, Q 5.
fn check(rows: usize) -> CheckMatrix {
    let both = [1, 1, 1, 1, 1, 0, 1, 2, 4, 8, 0, 1];
    match rows {
        2 => CheckMatrix::new(2, 6, &both).unwrap(),
        _ => CheckMatrix::new(1, 5, &both[..5]).unwrap(),
    }
}

fn contents(rows: usize) -> Vec<Vec<u8>> {
    let data = |i: usize| (0..LEN).map(|at| (at * (2 * i + 3) + at / 256 * 7 + i) as u8).collect();
    let mut out: Vec<Vec<u8>> = (0..4).map(data).collect();
    for coefficients in [[1, 1, 1, 1], [1, 2, 4, 8]].iter().take(rows) {
        let mut sum = vec![0; LEN];
        out.iter().zip(coefficients).for_each(|(bytes, c)| gf::add_scaled(&mut sum, bytes, *c));
        out.push(sum);
    }
    out
}

/// A block whose members hold `now` and have tags of `then`.
fn block(now: &[Vec<u8>], then: &[Vec<u8>], tagging: &[Option<Tagging>]) -> Block {
    let tags = now.iter().zip(then).zip(tagging).map(|((now, then), tagging)| {
        let Tagging { size, origin } = (*tagging)?;
        let format = TagFormat { guard: Guard::Crc64, block_bytes: size };
        let parts = now.chunks_exact(size as usize).zip(then.chunks_exact(size as usize));
        let judged = parts.map(|(now, then)| {
            let opinion = if now == then { Opinion::Fits(origin) } else { Opinion::Differs(origin) };
            Judged { opinion, guard: format.guard.of(then) }
        });
        Some(Tags { format, judged: judged.collect() })
    });
    let tags = tags.collect();
    Block {
        start: 0,
        len: LEN as u32,
        chunks: now.iter().cloned().map(Some).collect(),
        tags,
        missing: vec![],
    }
}

fn damage(bytes: &mut [u8], from: usize, seed: usize) {
    bytes[from..from + 40].iter_mut().enumerate().for_each(|(i, byte)| *byte ^= ((i * seed) as u8) | 1);
}

/// Every set of damaged data with every set of damaged tags, written or unchecked: what is
/// convicted is damaged, what is brought back is what was there, and if the tags of all are whole
/// and the code can bring the damaged back, they are convicted.
#[test]
fn every_small_set_of_damages_is_judged_right() {
    for rows in [1, 2] {
        let (check, truth) = (check(rows), contents(rows));
        let n = truth.len();
        let mut convicted = 0;
        for data in 0_u32..1 << n {
            for tags in 0_u32..1 << n {
                for unchecked in [None, Some(0), Some(n - 1)] {
                    if data.count_ones() > 3 || tags.count_ones() > 2 {
                        continue;
                    }
                    let (mut now, mut then) = (truth.clone(), truth.clone());
                    for i in 0..n {
                        if data >> i & 1 == 1 {
                            damage(&mut now[i], 1024, i + 3);
                        }
                        if tags >> i & 1 == 1 {
                            damage(&mut then[i], 1100, i + 11);
                        }
                    }
                    let tagging: Vec<Option<Tagging>> = (0..n)
                        .map(|i| {
                            let size = if i % 2 == 0 { 512 } else { 4096 };
                            (Some(i) != unchecked).then_some(Tagging { size, origin: Origin::Written })
                        })
                        .collect();
                    let context = format!("{rows} rows, data {data:06b}, tags {tags:06b}, {unchecked:?}");
                    let block = block(&now, &then, &tagging);
                    let heard = judge_tags(&check, &block);
                    for JudgedRun { run, verdict } in &heard {
                        match verdict {
                            TagVerdict::Convicted { members, .. } => {
                                convicted += 1;
                                for (role, bytes) in members {
                                    assert_eq!(data >> role.index() & 1, 1, "{context}: {role} is good");
                                    assert_eq!(bytes, &truth[role.index()][run.bytes()], "{context}");
                                }
                            }
                            TagVerdict::Tags(roles) => {
                                let good = |role: &Role| data >> role.index() & 1 == 0;
                                assert!(roles.iter().all(good), "{context}: {roles:?}");
                            }
                            TagVerdict::Ambiguous(_) => {}
                        }
                    }
                    let all_seen = unchecked.is_none_or(|i| data >> i & 1 == 0) && data & tags == 0;
                    if data != 0 && data.count_ones() as usize <= rows && all_seen {
                        let sure = |h: &JudgedRun| matches!(&h.verdict, TagVerdict::Convicted { members, .. } if members.len() as u32 == data.count_ones());
                        assert!(heard.iter().any(sure), "{context}: {heard:?}");
                    }
                }
            }
        }
        assert!(convicted > 100, "{convicted}");
    }
}

#[test]
fn a_suspect_beside_lost_sectors_is_brought_back_with_them_and_nothing_else_is() {
    let (check, truth) = (check(2), contents(2));
    let mut now = truth.clone();
    damage(&mut now[1], 600, 5);
    let tagging = vec![Some(Tagging { size: 512, origin: Origin::Vouched }); 6];
    let mut block = block(&now, &truth, &tagging);
    block.missing = vec![Missing { role: Role(3), range: 512..1024, why: Unread::Refused }];
    block.chunks[3].as_mut().unwrap()[512..1024].fill(0);
    let heard = judge_tags(&check, &block);
    let [JudgedRun { run, verdict: TagVerdict::Convicted { members, lost, testimony, tags } }] = &heard[..]
    else {
        panic!("{heard:?}")
    };
    assert_eq!((run.range.clone(), tags.len()), (512..1024, 0));
    assert_eq!(members, &[(Role(1), truth[1][512..1024].to_vec())]);
    assert_eq!(lost, &[(Role(3), truth[3][512..1024].to_vec())]);
    let expected = Testimony::Convicts { origin: Origin::Vouched, guard_bits: 64, members: 1 };
    assert_eq!(*testimony, expected);
    // Where the member with the lost sectors is damaged beside them, nothing is sure.
    block.missing[0].range = 512..800;
    block.chunks[3].as_mut().unwrap()[900] ^= 1;
    assert_eq!(judge_tags(&check, &block)[0].verdict, TagVerdict::Ambiguous(vec![Role(1)]));
}

#[test]
fn only_witnesses_that_fit_acquit() {
    let truth = contents(2);
    for (origin, acquitted) in [(Origin::Written, true), (Origin::Vouched, true), (Origin::Adopted, false)] {
        let block = block(&truth, &truth, &[Some(Tagging { size: 512, origin }); 6]);
        assert_eq!(acquits(&block, Role(2), &(100..700)).is_some(), acquitted, "{origin:?}");
    }
    let mut then = truth.clone();
    then[2][600] ^= 1;
    let block = block(&truth, &then, &[Some(Tagging { size: 512, origin: Origin::Written }); 6]);
    assert_eq!(acquits(&block, Role(2), &(100..700)), None);
    assert!(acquits(&block, Role(2), &(0..512)).is_some());
}

use super::*;
use crate::api::{Absent, Member, Moved, Parity, Recovered, Survives};
use proptest::prelude::*;
use std::collections::BTreeMap;

const ROLES: u16 = 4;

/// A volume whose members are in these states.
fn volume(states: &[(&str, Option<u64>)], held: bool, rewritten: u64) -> Volume {
    let members: Vec<Member> = (0..)
        .zip(states)
        .map(|(role, (state, rebuilt))| Member {
            role,
            device: Some(format!("d{role}")),
            state: (*state).to_owned(),
            rebuilt: *rebuilt,
            absent: (*state != "in_sync").then(|| Absent {
                since: 7,
                device: format!("d{role}"),
                cause: LossCause::Unreachable,
                why: "connection reset".to_owned(),
                kept_out: None,
            }),
        })
        .collect();
    let any = |word: &str| members.iter().any(|member| member.state == word);
    let condition = match held {
        true => Condition::Held,
        false if any("missing") || any("lost") => Condition::Degraded,
        false if any("rebuilding") => Condition::Rebuilding,
        false => Condition::Healthy,
    };
    Volume {
        uuid: "0".to_owned(),
        name: "vault".to_owned(),
        level: 6,
        layout: None,
        chunk_bytes: 65536,
        metadata: "1.2".to_owned(),
        bytes: 1,
        block_bytes: 512,
        consistency: "log".to_owned(),
        state: "dirty".to_owned(),
        condition,
        survives: Survives { drives: 1, nodes: 0 },
        members,
        moved: Moved {
            user_read: 0,
            user_written: 0,
            member_read: 0,
            member_written: 0,
            link_sent: 0,
            link_received: 0,
            rewritten_blocks: rewritten,
        },
        parity: Parity { by_nodes: false, why: None, near_writes: 0, far_writes: 0, ways: None },
        recovered: Recovered {
            log_discarded: false,
            writes_dropped: 0,
            blocks_applied: 0,
            windows_resynced: 0,
            members_failed: Vec::new(),
        },
        errors: Vec::new(),
        member_errors: Vec::new(),
        served: None,
    }
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(Event::name).collect()
}

#[test]
fn a_loss_a_return_and_a_rebuild_are_told_once_each() {
    let mut seen = Seen::default();
    let whole = ("in_sync", None);
    let mut look = |third, held, rewritten| {
        let events = seen.changes(volume(&[whole, whole, third, whole], held, rewritten));
        names(&events).join(" ")
    };
    assert_eq!(look(whole, false, 0), "");
    assert_eq!(look(("lost", None), false, 0), "member_failed");
    assert_eq!(look(("missing", None), false, 0), "", "the superblocks say it as well");
    assert_eq!(look(("missing", None), true, 0), "held");
    assert_eq!(look(("missing", None), false, 0), "goes_on");
    assert_eq!(look(("rebuilding", Some(10)), false, 0), "rebuild_begun");
    assert_eq!(look(("rebuilding", Some(199)), false, 0), "");
    assert_eq!(look(("rebuilding", Some(450)), false, 0), "rebuild_at");
    assert_eq!(look(("rebuilding", Some(599)), false, 0), "");
    assert_eq!(look(whole, false, 0), "rebuild_ended");
    assert_eq!(look(whole, false, 3), "blocks_rewritten");
    assert_eq!(look(whole, false, 4), "", "not at each block");
    // A member of a held volume that was never recorded as failed.
    assert_eq!(look(("lost", None), true, 4), "member_failed held");
    assert_eq!(look(whole, false, 4), "member_back goes_on");
    // A rebuild that nobody saw.
    assert_eq!(look(("missing", None), false, 4), "member_failed");
    assert_eq!(look(whole, false, 4), "rebuild_begun rebuild_ended");
    // A member that failed, and whose role another drive has by the next look.
    assert_eq!(look(("rebuilding", Some(0)), false, 4), "member_failed rebuild_begun");
}

#[test]
fn what_is_wrong_when_the_volume_is_opened_is_told() {
    let whole = ("in_sync", None);
    let events = Seen::default().changes(volume(
        &[whole, ("missing", None), whole, ("rebuilding", Some(0))],
        false,
        0,
    ));
    assert_eq!(names(&events), ["member_failed", "rebuild_begun"]);
    let Event::MemberFailed { role: 1, device, cause, why, survives: 1 } = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(
        (device.as_deref(), *cause, why.as_deref()),
        (Some("d1"), LossCause::Unreachable, Some("connection reset"))
    );
}

fn state() -> impl Strategy<Value = (&'static str, Option<u64>)> {
    prop_oneof![
        3 => Just(("in_sync", None)),
        1 => Just(("lost", None)),
        2 => Just(("missing", None)),
        2 => (0_u64..1000).prop_map(|rebuilt| ("rebuilding", Some(rebuilt))),
    ]
}

proptest! {
    /// Any two looks: who follows the events alone knows of each member whether it is
    /// gone, being rebuilt or in sync, and whether the volume is held. Nothing is told twice.
    #[test]
    fn the_events_lead_to_the_state(
        looks in proptest::collection::vec((proptest::array::uniform4(state()), any::<bool>()), 1..20),
    ) {
        let mut seen = Seen::default();
        let mut told: BTreeMap<u16, &str> = (0..ROLES).map(|role| (role, "in_sync")).collect();
        let mut told_held = false;
        for (states, held) in looks {
            let now = volume(&states, held, 0);
            for event in seen.changes(now.clone()) {
                match event {
                    Event::MemberFailed { role, .. } => {
                        prop_assert_ne!(told.insert(role, "gone"), Some("gone"), "told twice");
                    }
                    Event::RebuildBegun { role, .. } => {
                        prop_assert_ne!(told.insert(role, "rebuilding"), Some("rebuilding"), "told twice");
                    }
                    Event::RebuildAt { role, .. } => prop_assert_eq!(told[&role], "rebuilding"),
                    Event::RebuildEnded { role, .. } => {
                        prop_assert_eq!(told.insert(role, "in_sync"), Some("rebuilding"));
                    }
                    Event::MemberBack { role, .. } => {
                        prop_assert_eq!(told.insert(role, "in_sync"), Some("gone"));
                    }
                    Event::Held { .. } => prop_assert!(!std::mem::replace(&mut told_held, true)),
                    Event::GoesOn => prop_assert!(std::mem::replace(&mut told_held, false)),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            for member in &now.members {
                let expected = match member.state.as_str() {
                    "missing" | "lost" => "gone",
                    state => state,
                };
                prop_assert_eq!(told[&member.role], expected, "role {}", member.role);
            }
            prop_assert_eq!(told_held, held);
            // The same once more is no news.
            prop_assert_eq!(seen.changes(now), Vec::new());
        }
    }
}

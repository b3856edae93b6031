//! Events that follow from two looks at a volume, one after the other.

use crate::api::{Condition, Event, LossCause, Volume};

/// Steps of a rebuild that are told, in percent.
const STEPS: [u8; 4] = [80, 60, 40, 20];
/// Looks between two events of blocks that were written again: 30 s.
const REWRITTEN_LOOKS: u32 = 60;

/// The last look, and what was told of it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    volume: Option<Volume>,
    /// Blocks written again that were told.
    rewritten: u64,
    /// Looks since that was told.
    looks: u32,
}

/// Returns whether a member holds nothing that counts.
fn is_gone(state: &str) -> bool {
    matches!(state, "missing" | "lost")
}

/// The highest step that a rebuild has passed.
fn step(rebuilt: Option<u64>) -> Option<u8> {
    STEPS.into_iter().find(|step| rebuilt.is_some_and(|per_mille| per_mille >= u64::from(*step) * 10))
}

impl Seen {
    /// The last look.
    pub(crate) const fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref()
    }

    /// Events between the last look and this one. The first look tells what is wrong by then.
    pub(crate) fn changes(&mut self, now: Volume) -> Vec<Event> {
        let mut out = Vec::new();
        let left = now.members.iter().filter(|member| member.state != "in_sync").count() as u64;
        let survives = now.survives.drives as u64;
        for member in &now.members {
            let of = |volume: &Volume| volume.members.iter().find(|other| other.role == member.role).cloned();
            let before = self.volume.as_ref().and_then(of);
            let was = before.as_ref().map_or("in_sync", |before| before.state.as_str()).to_owned();
            let role = member.role;
            let since = |member: &crate::api::Member| member.absent.as_ref().map(|absent| absent.since);
            let (is_now, was_then) = (is_gone(&member.state), is_gone(&was));
            // Between two looks a member may have failed, and another drive have its role.
            let exchanged = !is_now
                && !was_then
                && member.absent.is_some()
                && before.as_ref().is_some_and(|before| since(before) != since(member));
            if (is_now && !was_then) || exchanged {
                let absent = member.absent.as_ref();
                let known = before.as_ref().and_then(|before| before.device.clone());
                out.push(Event::MemberFailed {
                    role,
                    device: absent.map(|absent| absent.device.clone()).or(known),
                    cause: absent.map_or(LossCause::Unknown, |absent| absent.cause),
                    why: absent.map(|absent| absent.why.clone()),
                    survives,
                });
            }
            let (rebuilds, rebuilt) = (member.state == "rebuilding", was == "rebuilding");
            if rebuilds && (!rebuilt || exchanged) {
                out.push(Event::RebuildBegun { role, device: member.device.clone() });
            } else if rebuilds
                && let Some(percent) = step(member.rebuilt)
                && step(before.and_then(|before| before.rebuilt)) < Some(percent)
            {
                out.push(Event::RebuildAt { role, percent });
            } else if member.state == "in_sync" && was != "in_sync" {
                if was == "lost" {
                    // Nobody has gone on without it.
                    let device = member.device.clone().unwrap_or_default();
                    out.push(Event::MemberBack { role, device });
                    continue;
                }
                if !rebuilt {
                    out.push(Event::RebuildBegun { role, device: member.device.clone() });
                }
                out.push(Event::RebuildEnded { role, left });
            }
        }
        let was_held = self.volume.as_ref().is_some_and(|volume| volume.condition == Condition::Held);
        match (was_held, now.condition == Condition::Held) {
            (false, true) => {
                let gone = now.members.iter().filter(|member| is_gone(&member.state));
                out.push(Event::Held { roles: gone.map(|member| member.role).collect() });
            }
            (true, false) => out.push(Event::GoesOn),
            _ => {}
        }
        self.looks = self.looks.saturating_add(1);
        let blocks = now.moved.rewritten_blocks.saturating_sub(self.rewritten);
        if blocks > 0 && (self.rewritten == 0 || self.looks >= REWRITTEN_LOOKS) {
            (self.rewritten, self.looks) = (now.moved.rewritten_blocks, 0);
            out.push(Event::BlocksRewritten { blocks });
        }
        self.volume = Some(now);
        out
    }
}

#[cfg(test)]
mod tests;

//! Members that are gone: since when, why, and whether their drive may come back by itself.
//! `docs/design/volume-operations.md`, *A member that comes back by itself*, has the rules.

use pumice_base::units::{Role, Rules};
use pumice_offload::ErrorKind;
use std::collections::{BTreeMap, BTreeSet};

/// The reason why a member is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The connection to its node was lost.
    Unreachable,
    /// Its drive or its node refused or failed an operation.
    Failed,
    /// Its operator failed it.
    ByHand,
}

/// A member that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// Its role.
    pub role: Role,
    /// Its device.
    pub device: String,
    /// The device_uuid of its superblock, if it had one as a member.
    pub device_uuid: Option<[u8; 16]>,
    /// Bytes of its drive.
    pub bytes: u64,
    /// The reason: of several the one that weighs most.
    pub cause: Cause,
    /// The reason in words.
    pub why: String,
    /// Seconds since 1970.
    pub at: u64,
    /// A drive has its role again, and is being rebuilt.
    pub joined: bool,
}

/// An error of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberError {
    /// Its role; `None` if the error is of the volume as a whole.
    pub role: Option<Role>,
    /// The words.
    pub text: String,
    /// Seconds since 1970.
    pub at: u64,
}

/// Rules of a member that comes back by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// B1: it was lost with the connection to its node, and by nothing else.
    Cause,
    /// B2: it is the same drive: its device_uuid and its size.
    SameDrive,
    /// B3: its event count is below that of the array.
    NotAhead,
    /// B4: it was in sync, all that it missed has a bit, and its role is empty.
    FormerRole,
}

impl Rule {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [Self::Cause, Self::SameDrive, Self::NotAhead, Self::FormerRole];
}

/// A drive that answers again, as its superblock describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) device_uuid: [u8; 16],
    pub(crate) bytes: u64,
    pub(crate) events: u64,
    /// The role that it may take again as it is.
    pub(crate) former: Option<Role>,
}

/// Returns whether a drive may take back the role that it had. `events` is the count of the array.
///
/// # Errors
/// The reason why not.
pub(crate) fn may_come_back(
    rules: Rules<Rule>,
    absence: &Absence,
    candidate: &Candidate,
    events: u64,
) -> Result<(), &'static str> {
    if rules.keep(Rule::Cause) {
        match absence.cause {
            Cause::Unreachable => {}
            Cause::Failed => return Err("it failed by an error of its own"),
            Cause::ByHand => return Err("it was failed by order"),
        }
    }
    let same = absence.device_uuid == Some(candidate.device_uuid) && absence.bytes == candidate.bytes;
    if rules.keep(Rule::SameDrive) && !same {
        return Err("it is another drive");
    }
    if rules.keep(Rule::NotAhead) && candidate.events >= events {
        return Err("its event count is not below that of the array: others may have written to it");
    }
    if rules.keep(Rule::FormerRole) && candidate.former != Some(absence.role) {
        return Err("it cannot come back as it is");
    }
    Ok(())
}

/// All members that are gone.
#[derive(Debug, Default)]
pub(crate) struct Absences(BTreeMap<Role, Absence>);

impl Absences {
    /// A member was lost, or failed once more. Of a member that is gone already the first words
    /// stay, and a cause that weighs more replaces a lighter one.
    pub(crate) fn lost(&mut self, absence: Absence) {
        match self.0.get_mut(&absence.role) {
            Some(known) if !known.joined => {
                if known.cause == Cause::Unreachable && absence.cause != Cause::Unreachable {
                    (known.cause, known.why) = (absence.cause, absence.why);
                }
            }
            _ => drop(self.0.insert(absence.role, absence)),
        }
    }

    /// A drive has taken the role.
    pub(crate) fn joined(&mut self, role: Role) {
        if let Some(absence) = self.0.get_mut(&role) {
            absence.joined = true;
        }
    }

    /// The absence of a member that no drive has replaced.
    pub(crate) fn of(&self, role: Role) -> Option<&Absence> {
        self.0.get(&role).filter(|absence| !absence.joined)
    }

    /// Forgets members that are in sync, which are all but `gone`. Returns those that it knew.
    pub(crate) fn keep_only(&mut self, gone: &BTreeSet<Role>) -> BTreeSet<Role> {
        let back = self.0.keys().filter(|role| !gone.contains(role)).copied().collect();
        self.0.retain(|role, _| gone.contains(role));
        back
    }

    /// All of them, by role.
    pub(crate) fn all(&self) -> Vec<Absence> {
        self.0.values().cloned().collect()
    }
}

/// The cause of a failed operation.
pub(crate) const fn cause_of(kind: ErrorKind) -> Cause {
    match kind {
        ErrorKind::Unreachable => Cause::Unreachable,
        _ => Cause::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absence(role: u16, cause: Cause) -> Absence {
        Absence {
            role: Role(role),
            device: "nvme://10.0.0.1:4420/1".to_owned(),
            device_uuid: Some([1; 16]),
            bytes: 100,
            cause,
            why: format!("{cause:?}"),
            at: 7,
            joined: false,
        }
    }

    /// The whole space: of each fact the right value and the wrong ones.
    #[test]
    fn a_drive_comes_back_only_if_every_fact_is_right() {
        let causes = [Cause::Unreachable, Cause::Failed, Cause::ByHand];
        let (mut taken, mut cases) = (0, 0);
        for cause in causes {
            for known in [Some([1; 16]), None] {
                for device_uuid in [[1; 16], [2; 16]] {
                    for bytes in [99, 100, 101] {
                        for events in [9, 10, 11] {
                            for former in [Some(Role(2)), Some(Role(3)), None] {
                                let lost = Absence { device_uuid: known, ..absence(2, cause) };
                                let candidate = Candidate { device_uuid, bytes, events, former };
                                let may = may_come_back(Rules::all(), &lost, &candidate, 10).is_ok();
                                let right = cause == Cause::Unreachable
                                    && known == Some(device_uuid)
                                    && (bytes, events, former) == (100, 9, Some(Role(2)));
                                assert_eq!(may, right, "{lost:?} {candidate:?}");
                                (taken, cases) = (taken + usize::from(may), cases + 1);
                            }
                        }
                    }
                }
            }
        }
        assert_eq!((taken, cases), (1, 3 * 2 * 2 * 3 * 3 * 3));
    }

    /// Without one of the rules a drive comes back that must not.
    #[test]
    fn each_rule_is_needed() {
        let right = Candidate { device_uuid: [1; 16], bytes: 100, events: 9, former: Some(Role(2)) };
        for rule in Rule::ALL {
            let (lost, candidate) = match rule {
                Rule::Cause => (absence(2, Cause::Failed), right),
                Rule::SameDrive => {
                    (absence(2, Cause::Unreachable), Candidate { device_uuid: [2; 16], ..right })
                }
                Rule::NotAhead => (absence(2, Cause::Unreachable), Candidate { events: 10, ..right }),
                Rule::FormerRole => (absence(2, Cause::Unreachable), Candidate { former: None, ..right }),
            };
            assert!(may_come_back(Rules::all(), &lost, &candidate, 10).is_err(), "{rule:?}");
            assert_eq!(may_come_back(Rules::without(rule), &lost, &candidate, 10), Ok(()), "{rule:?}");
        }
    }

    #[test]
    fn the_cause_that_weighs_most_stays_and_a_new_drive_has_its_own() {
        let mut absences = Absences::default();
        absences.lost(absence(2, Cause::Unreachable));
        absences.lost(Absence { why: "late".to_owned(), ..absence(2, Cause::Unreachable) });
        assert_eq!(absences.of(Role(2)).unwrap().why, "Unreachable", "the first words stay");
        absences.lost(absence(2, Cause::Failed));
        absences.lost(absence(2, Cause::Unreachable));
        assert_eq!(absences.of(Role(2)).unwrap().cause, Cause::Failed, "a medium error is not forgotten");
        absences.joined(Role(2));
        assert!(absences.of(Role(2)).is_none() && absences.all().len() == 1);
        absences.lost(absence(2, Cause::Unreachable));
        assert_eq!(absences.of(Role(2)).unwrap().cause, Cause::Unreachable, "that of the new drive");
        assert_eq!(absences.keep_only(&BTreeSet::new()), BTreeSet::from([Role(2)]));
        assert!(absences.all().is_empty());
    }
}

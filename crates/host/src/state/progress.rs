//! The progress of a pass, as a file. Each field of the file is checked: first by itself, then,
//! with [`SavedPass::fits`], against the array and the plan that is computed from it again.

use crate::Method;
use crate::finding::Finding;
use crate::order::Order;
use crate::pattern::Pattern;
use crate::premises::Premises;
use pumice_base::durable::{BadEnvelope, Envelope};
use pumice_base::telemetry::Ledger;
use pumice_offload::MAX_STRIPES;
use pumice_parity::seed::Seed;
use pumice_raid::Uuid;
use pumice_raid::arrangement::Arrangement;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;

/// The version of the file.
pub(crate) const VERSION: u32 = 4;
const KIND: Envelope = Envelope { magic: *b"PUMSCRUB", version: VERSION };
/// Most findings of a file.
pub(crate) const MAX_SAVED_FINDINGS: usize = 200_000;

/// Properties of an array's shape that a pass relies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    level: i32,
    /// mdadm's name of it.
    layout: Option<String>,
    chunk_bytes: u64,
    raid_disks: u16,
    stripes: u64,
}

impl Shape {
    pub(crate) fn of(geometry: &Arrangement) -> Self {
        Self {
            level: geometry.level().number(),
            layout: geometry.layout().map(|layout| layout.to_string()),
            chunk_bytes: geometry.chunk_bytes(),
            raid_disks: geometry.raid_disks(),
            stripes: geometry.stripes(),
        }
    }
}

/// State of an interrupted pass in a state directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Before {
    /// There was none.
    Nothing,
    /// It can be resumed, if it fits the array.
    Pass(Box<SavedPass>),
    /// There is a file that cannot be resumed, and why: damaged, impossible, or of another version.
    Unusable(String),
}

/// Choices of a pass that a resumed pass takes over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PassKey {
    pub(crate) method: Method,
    pub(crate) batch: u64,
    pub(crate) accumulators: u8,
    #[serde(serialize_with = "seed_text", deserialize_with = "seed_of_text")]
    pub(crate) seed: Seed,
    pub(crate) range: Range<u64>,
    pub(crate) order: Order,
    /// Shape of the array.
    pub(crate) geometry: Shape,
    /// Digest of batches and their order.
    pub(crate) plan: u32,
}

fn seed_text<S: Serializer>(seed: &Seed, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(seed)
}

fn seed_of_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Seed, D::Error> {
    let text = String::deserialize(deserializer)?;
    // A number is a seed too, on a command line; a file has all of it.
    if text.len() != 64 {
        return Err(serde::de::Error::custom("a seed that does not have 64 digits"));
    }
    text.parse().map_err(|_| serde::de::Error::custom("a seed that is not hexadecimal"))
}

/// An interrupted pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedPass {
    pub(crate) array: String,
    /// Start of the pass, in seconds since 1970.
    pub(crate) begun: u64,
    /// Time of this save.
    pub(crate) saved: u64,
    /// The identity of the pass, by which the repair archive knows it.
    pub(crate) pass: u64,
    #[serde(flatten)]
    pub(crate) key: PassKey,
    /// The array as it was read.
    pub(crate) read: Premises,
    /// Roles of the members whose blocks were compared with their tags.
    #[serde(default)]
    pub(crate) tagged: Vec<u16>,
    pub(crate) batches_done: usize,
    pub(crate) stripes_checked: u64,
    pub(crate) rechecked: u64,
    pub(crate) bytes_checked: u64,
    pub(crate) findings: Vec<Finding>,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) ledger: Ledger,
    /// Blocks that fit their tags, by origin.
    #[serde(default)]
    pub(crate) tags: Option<[u64; 4]>,
    /// Adopted tags that were vouched for.
    #[serde(default)]
    pub(crate) vouched: u64,
    pub(crate) miss_bound: f64,
    pub(crate) seconds: f64,
}

impl SavedPass {
    /// A pass that begins now.
    pub(crate) fn new(array: Uuid, now: u64, pass: u64, key: PassKey, read: Premises) -> Self {
        Self {
            array: array.to_string(),
            begun: now,
            saved: now,
            pass,
            key,
            read,
            tagged: Vec::new(),
            batches_done: 0,
            stripes_checked: 0,
            rechecked: 0,
            bytes_checked: 0,
            findings: Vec::new(),
            patterns: Vec::new(),
            ledger: Ledger::default(),
            tags: None,
            vouched: 0,
            miss_bound: 0.0,
            seconds: 0.0,
        }
    }

    /// Returns whether it is one of the whole array.
    pub(crate) fn is_complete(&self) -> bool {
        self.key.range == (0..self.key.geometry.stripes)
    }

    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        KIND.seal(&serde_json::to_vec(self).expect("plain data has a JSON form"))
    }

    /// Reads the bytes of a file, and checks what can be checked without the array.
    pub(crate) fn decode(file: &[u8], array: Uuid) -> Before {
        let damaged = |why: String| Before::Unusable(format!("it is damaged: {why}"));
        let body = match KIND.open(file) {
            Ok(body) => body,
            // Versions 1 and 2 were plain JSON.
            Err(_) if file.first() == Some(&b'{') => {
                return Before::Unusable(format!(
                    "another version of pumice saved it: plain JSON, and this one has file version {VERSION}"
                ));
            }
            Err(BadEnvelope::Version { found, .. }) => {
                return Before::Unusable(format!(
                    "another version of pumice saved it: file version {found}, and this one has {VERSION}"
                ));
            }
            Err(bad) => return damaged(bad.to_string()),
        };
        let saved: Self = match serde_json::from_slice(body) {
            Ok(saved) => saved,
            Err(error) => return damaged(error.to_string()),
        };
        match saved.impossible(array) {
            None => Before::Pass(Box::new(saved)),
            Some(field) => damaged(format!("field '{field}' is out of range")),
        }
    }

    /// The first field that cannot be, whatever the array.
    fn impossible(&self, array: Uuid) -> Option<&'static str> {
        let Self { key, .. } = self;
        let fields = [
            ("array", self.array == array.to_string()),
            ("saved", self.begun <= self.saved),
            ("pass", self.pass != 0),
            ("batch", (1..=MAX_STRIPES).contains(&key.batch)),
            ("accumulators", (1..=8).contains(&key.accumulators)),
            ("range", key.range.start < key.range.end && key.range.end <= key.geometry.stripes),
            ("read", self.read.is_possible(key.geometry.raid_disks, key.geometry.stripes)),
            ("findings", self.findings.len() <= MAX_SAVED_FINDINGS),
            ("rechecked", self.rechecked <= key.geometry.stripes),
            ("miss_bound", (0.0..=1.0).contains(&self.miss_bound)),
            ("seconds", self.seconds.is_finite() && self.seconds >= 0.0),
        ];
        fields.into_iter().find(|(_, fits)| !fits).map(|(field, _)| field)
    }

    /// Checks that the pass is one over this plan: `batches` in their order, made anew from the
    /// array. The geometry and the plan's digest are known to be the same.
    ///
    /// # Errors
    /// The first field that contradicts it.
    pub(crate) fn fits(&self, geometry: &Arrangement, batches: &[Range<u64>]) -> Result<(), &'static str> {
        let done = batches.get(..self.batches_done).ok_or("batches_done")?;
        let stripes: u64 = done.iter().map(|batch| batch.end - batch.start).sum();
        if self.stripes_checked != stripes {
            return Err("stripes_checked");
        }
        let of_stripe = u64::from(geometry.raid_disks()).saturating_mul(geometry.chunk_bytes());
        if self.bytes_checked > stripes.saturating_mul(of_stripe) {
            return Err("bytes_checked");
        }
        // By place, each with whether it is done.
        let mut by_place: Vec<(&Range<u64>, bool)> =
            batches.iter().enumerate().map(|(i, batch)| (batch, i < done.len())).collect();
        by_place.sort_by_key(|(batch, _)| batch.start);
        // A repair in a batch that is still to be done again is known from the archive.
        let is_checked = |finding: &Finding| {
            let next = by_place.partition_point(|(batch, _)| batch.start <= finding.stripe);
            let batch = next.checked_sub(1).map(|i| by_place[i]);
            batch.is_some_and(|(batch, done)| batch.contains(&finding.stripe) && (done || finding.repaired))
        };
        let disks = geometry.raid_disks();
        for finding in &self.findings {
            let end = finding.chunk_offset.checked_add(finding.length);
            let roles = finding.member.iter().chain(&finding.members);
            let roles = roles.chain(finding.alternatives.iter().flat_map(|a| &a.members));
            if !is_checked(finding)
                || finding.length == 0
                || end.is_none_or(|end| end > geometry.chunk_bytes())
                || roles.into_iter().any(|role| *role >= disks)
            {
                return Err("findings");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::premises::ReadMember;

    const ARRAY: Uuid = Uuid([7; 16]);

    fn saved() -> SavedPass {
        let geometry = Shape {
            level: 6,
            layout: Some("left-symmetric".to_owned()),
            chunk_bytes: 16384,
            raid_disks: 6,
            stripes: 20,
        };
        let key = PassKey {
            method: Method::Stripe,
            batch: 8,
            accumulators: 1,
            seed: Seed::from_number(1),
            range: 0..20,
            order: Order::Sequential,
            geometry,
            plan: 9,
        };
        let member = |role| ReadMember {
            role,
            device: format!("/dev/sd{role}"),
            device_uuid: Some(ARRAY.to_string()),
            number: role,
            data_offset: 1 << 20,
            stripes: 20,
        };
        let read = Premises {
            metadata: "1.2".to_owned(),
            events: 17,
            members: (0..6).map(member).collect(),
            elsewhere: Vec::new(),
        };
        SavedPass::new(ARRAY, 1_700_000_000, 5, key, read)
    }

    #[test]
    fn what_was_saved_is_read() {
        let saved = saved();
        assert_eq!(SavedPass::decode(&saved.encode(), ARRAY), Before::Pass(Box::new(saved)));
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_refused() {
        let good = saved().encode();
        for len in 0..good.len() {
            assert!(matches!(SavedPass::decode(&good[..len], ARRAY), Before::Unusable(_)), "{len} bytes");
        }
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(matches!(SavedPass::decode(&bad, ARRAY), Before::Unusable(_)), "bit {at}");
        }
    }

    /// With a checksum that fits, every field is still looked at.
    #[test]
    fn a_state_with_impossible_fields_is_refused_by_name() {
        type Change = fn(&mut SavedPass);
        let changes: [(&str, Change); 15] = [
            ("array", |s| s.array = Uuid([8; 16]).to_string()),
            ("saved", |s| s.saved = 1),
            ("pass", |s| s.pass = 0),
            ("batch", |s| s.key.batch = 0),
            ("batch", |s| s.key.batch = MAX_STRIPES + 1),
            ("accumulators", |s| s.key.accumulators = 0),
            ("accumulators", |s| s.key.accumulators = 9),
            ("range", |s| s.key.range = 3..3),
            ("range", |s| s.key.range = 0..21),
            ("rechecked", |s| s.rechecked = 21),
            ("read", |s| s.read.members[5].role = 6),
            ("read", |s| s.read.members[5].role = 4),
            ("read", |s| s.read.members[2].stripes = 21),
            ("miss_bound", |s| s.miss_bound = 1.5),
            ("seconds", |s| s.seconds = -1.0),
        ];
        for (field, change) in changes {
            let mut bad = saved();
            change(&mut bad);
            match SavedPass::decode(&bad.encode(), ARRAY) {
                Before::Unusable(why) => assert!(why.contains(&format!("'{field}'")), "{field}: {why}"),
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_versions_are_told_from_damage() {
        for file in [
            &br#"{"version":2,"array":"x"}"#[..],
            &Envelope { version: VERSION + 1, ..KIND }.seal(b"whatever it has"),
        ] {
            match SavedPass::decode(file, ARRAY) {
                Before::Unusable(why) => assert!(why.contains("another version of pumice"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

//! Arrays of other formats than md's, as their formats state them.

use std::sync::Arc;

use pumice_base::units::Role;

use super::{Array, Member, Note, State};
use crate::arrangement::Arrangement;
use crate::bitmap::Bitmap;
use crate::superblock::Resync;
use crate::uuid::Uuid;

/// An array as another format than md's describes it.
#[derive(Debug, Clone)]
pub struct Stated {
    /// Its UUID, by which state files know it.
    pub uuid: Uuid,
    /// Its name, as its owner's tools print it.
    pub name: String,
    /// The words for the format.
    pub format: &'static str,
    /// The highest event count.
    pub events: u64,
    /// The arrangement of its chunks.
    pub arrangement: Arrangement,
    /// Its state.
    pub state: State,
    /// The members by role, `None` if one is missing.
    pub members: Vec<Option<Member>>,
    /// Roles whose device was merely not named.
    pub not_named: Vec<Role>,
    /// Notes for readers of the results.
    pub notes: Vec<String>,
    /// True if writes may be under way, or have been when the array stopped.
    pub unclean: bool,
    /// True if it is unclean, and nothing shows where.
    pub untracked: bool,
    /// The members' bitmaps, without duplicates.
    pub bitmaps: Vec<Bitmap>,
    /// True if nothing makes rows consistent that a crash left half written.
    pub keeps_torn_rows: bool,
}

impl From<Stated> for Array {
    fn from(stated: Stated) -> Self {
        Self {
            uuid: stated.uuid,
            name: stated.name,
            metadata: None,
            format: stated.format,
            events: stated.events,
            ctime: 0,
            geometry: stated.arrangement,
            state: stated.state,
            members: stated.members,
            others: Vec::new(),
            not_named: stated.not_named,
            notes: stated.notes.into_iter().map(Note::Stated).collect(),
            resync: if stated.unclean { Resync::Unclean } else { Resync::Done },
            journal_stripes: Some(Vec::new()),
            untracked: stated.untracked,
            settled: false,
            running: false,
            bitmaps: stated.bitmaps.into_iter().map(Arc::new).collect(),
            keeps_torn_rows: stated.keeps_torn_rows,
        }
    }
}

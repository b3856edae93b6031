//! The state of drives, nodes and the host, and writes on their way between them.

use super::Super;

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Data {
        stripe: usize,
        value: u64,
    },
    Super(Super),
    Bit {
        region: usize,
        set: bool,
    },
    /// A mark names the entry; none is taken away that is not the one meant.
    Ppl {
        stripe: usize,
        mark: u64,
        set: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub(super) drive: usize,
    pub(super) what: What,
    pub(super) op: usize,
    pub(super) life: u32,
    /// The node's epoch when it came there; a node that was started anew knows nothing of it.
    pub(super) epoch: u64,
    pub(super) answered: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Super,
    Bit {
        region: usize,
        set: bool,
    },
    /// The log goes first, then these members.
    Stripe {
        stripe: usize,
        logged: bool,
        writes: Vec<(usize, u64)>,
        absorbs: bool,
        ends: Ends,
    },
}

/// Purpose of a change of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Write,
    Resync,
    Recovery,
    /// A copy to the drive that replaces a member.
    Copy,
    /// It is left as it is.
    Scribble,
}

#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) kind: Kind,
    pub(super) pending: usize,
    pub(super) life: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Tick(u32),
    Arrive(usize),
    Apply(usize),
    Answer(usize),
    SafeMode(u32),
    Daemon(u32),
    Crash,
    Boot,
    Assemble(u32),
    Step(u32),
    Expire(usize, u64),
    PathLost,
    PathBack(usize, bool),
    Visitor(bool, bool),
    Damage,
    Change(u32),
    ReAdd(u32, usize),
    Replace(u32, usize),
    Replaced(u32),
    Restart,
    Recover(u32, usize, usize),
    Scribble(u32),
    LogMoves(usize, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    Up,
    /// Nothing comes through, and the node has not noticed.
    Silent,
    Down,
}

/// An association.
#[derive(Debug, Clone, Copy)]
pub(super) struct Association {
    pub(super) serial: u64,
    pub(super) heard: u64,
    pub(super) alive: bool,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) epoch: u64,
    pub(super) changes: u64,
    pub(super) associations: Vec<Association>,
    pub(super) path: Path,
    /// Other hosts that might write.
    pub(super) visitors: u32,
    /// Other hosts that have promised not to.
    pub(super) observers: u32,
    /// Time for which the path was silent.
    pub(super) lost: u64,
    pub(super) calm_from: u64,
    /// Writes that wait for the path.
    pub(super) waiting: Vec<usize>,
}

/// The host that runs the array.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// Counts crashes.
    pub(super) life: u32,
    pub(super) assembled: bool,
    pub(super) read_only: bool,
    pub(super) events: u64,
    pub(super) clean: bool,
    pub(super) busy: bool,
    pub(super) wanting: Vec<(usize, usize, u64)>,
    pub(super) locked: Vec<bool>,
    pub(super) active: usize,
    /// Time at which it was last not idle.
    pub(super) last: u64,
    /// Rounds until a bit is cleared; 0 is a clear one.
    pub(super) bits: Vec<u8>,
    pub(super) bit_busy: Vec<bool>,
    pub(super) writing: Vec<usize>,
    /// Stripes that wait for a resync.
    pub(super) needs: Vec<bool>,
    pub(super) checkpoint: bool,
    /// Nothing but the change from clean to active came last: the count may go back by it.
    pub(super) may_go_back: bool,
    pub(super) faulty: u32,
    /// The drive of each role.
    pub(super) drives: Vec<usize>,
    /// The role that is being replaced, and how far it is copied.
    pub(super) copying: Option<(usize, usize)>,
    /// A member has been replaced, and the superblocks do not say so yet.
    pub(super) replaced: bool,
    pub(super) valid: Vec<usize>,
    pub(super) shape: u32,
    pub(super) logical: Vec<Vec<u64>>,
    pub(super) paused_until: u64,
    /// Of the newest entries in partial parity logs.
    pub(super) marks: Vec<u64>,
}

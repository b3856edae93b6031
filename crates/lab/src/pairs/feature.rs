//! The features that are put in one room: `docs/design/pairs.md` has the table.

/// A feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    Scrub,
    Repair,
    Heal,
    Drives,
    Vouch,
    Protect,
    Rebuild,
    Replace,
    AddRefused,
    Fail,
    NodeRestart,
    NodePause,
    NodeKill,
    ServeStop,
    ServeKill,
    Window,
    Slowdown,
    FlashIdle,
    TagCheckpoint,
    FullDisk,
    SlowDrive,
    Status,
}

use Feature::{
    AddRefused, Drives, Fail, FlashIdle, FullDisk, Heal, NodeKill, NodePause, NodeRestart, Protect, Rebuild,
    Repair, Replace, Scrub, ServeKill, ServeStop, SlowDrive, Slowdown, Status, TagCheckpoint, Vouch, Window,
};

impl Feature {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 22] = [
        Scrub,
        Repair,
        Heal,
        Drives,
        Vouch,
        Protect,
        Rebuild,
        Replace,
        AddRefused,
        Fail,
        NodeRestart,
        NodePause,
        NodeKill,
        ServeStop,
        ServeKill,
        Window,
        Slowdown,
        FlashIdle,
        TagCheckpoint,
        FullDisk,
        SlowDrive,
        Status,
    ];

    /// The name in tables and on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Scrub => "scrub",
            Repair => "repair",
            Heal => "heal",
            Drives => "drives",
            Vouch => "vouch",
            Protect => "protect",
            Rebuild => "rebuild",
            Replace => "replace",
            AddRefused => "add-refused",
            Fail => "fail",
            NodeRestart => "node-restart",
            NodePause => "node-pause",
            NodeKill => "node-kill",
            ServeStop => "serve-stop",
            ServeKill => "serve-kill",
            Window => "window",
            Slowdown => "slowdown",
            FlashIdle => "flash-idle",
            TagCheckpoint => "tag-checkpoint",
            FullDisk => "full-disk",
            SlowDrive => "slow-drive",
            Status => "status",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.name() == name)
    }

    /// The role of the member to which it happens; `None` if it may be any.
    pub(crate) const fn role(self) -> Option<usize> {
        match self {
            TagCheckpoint | Protect | Drives | Vouch => Some(0),
            FlashIdle => Some(1),
            FullDisk | Fail => Some(2),
            Rebuild => Some(3),
            Replace => Some(4),
            _ => None,
        }
    }

    /// It takes a member out by an order: another feature must not take the same.
    pub(crate) const fn orders_members(self) -> bool {
        matches!(self, Rebuild | Replace | Fail)
    }

    /// It happens to a node: to that of the other feature's member, if it has one.
    pub(crate) const fn is_of_node(self) -> bool {
        matches!(self, NodeRestart | NodePause | NodeKill)
    }

    /// It takes the member of its node, or of its order, out of the volume for a time.
    pub(crate) const fn loses_members(self) -> bool {
        self.orders_members() || self.is_of_node() || matches!(self, FullDisk)
    }

    /// It is a condition of the nodes from the beginning on, and not something that begins.
    pub(crate) const fn is_condition(self) -> bool {
        matches!(self, Window | Slowdown | SlowDrive)
    }

    /// It needs a volume in service.
    pub(crate) const fn needs_volume(self) -> bool {
        matches!(self, Rebuild | Replace | AddRefused | Fail | Status)
    }

    /// It is run on images as well: arrays that nobody serves.
    pub(crate) const fn is_of_images(self) -> bool {
        matches!(self, Scrub | Repair | Heal)
    }
}

/// Setting in which a pair is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A volume in service, under load.
    Volume,
    /// The same array while nobody serves it: images of md members behind nodes.
    Images,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Images => "images",
        }
    }
}

/// A cell: one feature, and another that begins while the first is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) kind: Kind,
    pub(crate) first: Feature,
    pub(crate) second: Feature,
}

impl Pair {
    pub(crate) fn has(self, feature: Feature) -> bool {
        self.first == feature || self.second == feature
    }

    pub(crate) fn any(self, is: impl Fn(Feature) -> bool) -> bool {
        is(self.first) || is(self.second)
    }

    pub(crate) fn name(self) -> String {
        format!("{}:{},{}", self.kind.name(), self.first.name(), self.second.name())
    }

    /// The member whose node is hit by a feature of this pair.
    pub(crate) fn hit(self, feature: Feature) -> usize {
        if let Some(role) = feature.role() {
            return role;
        }
        let other = if self.first == feature { self.second } else { self.first };
        match other.role() {
            Some(role) if !other.orders_members() => role,
            // Each has a node of its own: nobody starts one that the other has started.
            _ if other.is_of_node() && self.second == feature => 0,
            // Two members that are missing are what the volume survives.
            _ => 1,
        }
    }

    /// Every pair, both orders, in both worlds.
    pub(crate) fn all() -> Vec<Self> {
        let mut out = Vec::new();
        for kind in [Kind::Volume, Kind::Images] {
            for first in Feature::ALL {
                for second in Feature::ALL.into_iter().filter(|second| *second != first) {
                    let pair = Self { kind, first, second };
                    let is_there = kind == Kind::Volume
                        || pair.any(Feature::is_of_images) && !pair.any(Feature::needs_volume);
                    if is_there {
                        out.push(pair);
                    }
                }
            }
        }
        out
    }

    /// The pairs of the short form: those of which one waits, is killed or fails while the other
    /// holds something.
    pub(crate) fn short() -> Vec<Self> {
        let volume = [
            (Window, Scrub),
            (Window, Repair),
            (Window, Rebuild),
            (Scrub, ServeStop),
            (Repair, ServeKill),
            (NodeKill, Scrub),
            (NodePause, Scrub),
            (Rebuild, NodeKill),
            (Rebuild, NodeRestart),
            (Rebuild, ServeKill),
            (Replace, NodePause),
            (Replace, ServeStop),
            (Replace, Fail),
            (AddRefused, ServeStop),
            (AddRefused, Rebuild),
            (FullDisk, TagCheckpoint),
            (FullDisk, Scrub),
            (FullDisk, Protect),
            (FlashIdle, NodeKill),
            (FlashIdle, Scrub),
            (TagCheckpoint, NodeKill),
            (Vouch, NodeRestart),
            (Fail, ServeKill),
            (SlowDrive, Rebuild),
            (Slowdown, Scrub),
            (Status, NodePause),
            (Heal, ServeStop),
        ];
        let images = [(Scrub, NodeKill), (Repair, ServeStop), (Window, Scrub)];
        let of = |kind, pairs: &[(Feature, Feature)]| -> Vec<Self> {
            pairs.iter().map(|(first, second)| Self { kind, first: *first, second: *second }).collect()
        };
        [of(Kind::Volume, &volume), of(Kind::Images, &images)].concat()
    }
}

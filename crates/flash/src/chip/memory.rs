//! Flash in memory.

use crate::chip::slot::{History, Slot};
use crate::chip::{BlockId, Faults, Geometry, Nand, NandError, Nanos, PageRead, Ppn};

/// Durations of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Reading a page, transfer included.
    pub read: Nanos,
    /// Programming a page, transfer included.
    pub program: Nanos,
    /// Erasing a block. All channels wait for it, as a block spans them.
    pub erase: Nanos,
}

impl Timing {
    /// The times of the SSD extension of `DiskSim`: 25 us, 200 us and 1.5 ms.
    pub const DISKSIM: Self = Self { read: 25_000, program: 200_000, erase: 1_500_000 };
}

/// Flash in memory. Equal calls give equal results: faults come from a seed.
#[derive(Debug, Clone)]
pub struct MemoryNand<P, O> {
    geometry: Geometry,
    timing: Timing,
    pub(crate) slots: Vec<Slot<P, O>>,
    /// The next page to be programmed, by block.
    pub(crate) next: Vec<u32>,
    erases: Vec<u32>,
    /// Time at which each channel is free.
    free_at: Vec<Nanos>,
    pub(crate) faults: Option<Faults>,
    pub(crate) history: History<P, O>,
    pub(crate) dead: bool,
}

impl<P: Clone, O: Clone> MemoryNand<P, O> {
    /// An erased device.
    ///
    /// # Panics
    /// If the geometry has no channel, no page, or 2^32 pages or more.
    #[must_use]
    pub fn new(geometry: Geometry, timing: Timing) -> Self {
        assert!(geometry.channels > 0 && geometry.pages() > 0, "flash has channels and pages");
        Self {
            geometry,
            timing,
            slots: (0..geometry.pages()).map(|_| Slot::Erased).collect(),
            next: vec![0; geometry.blocks as usize],
            erases: vec![0; geometry.blocks as usize],
            free_at: vec![0; geometry.channels as usize],
            faults: None,
            history: History::default(),
            dead: false,
        }
    }

    /// Memory of a device of this shape in bytes, whatever it holds, without what its pages refer
    /// to. No device is needed for that, so there may be more pages than one can have.
    #[must_use]
    pub fn memory_bytes(geometry: Geometry) -> u64 {
        let blocks = u64::from(geometry.blocks);
        let pages = blocks * u64::from(geometry.pages_per_block);
        let (page, block) = (size_of::<Slot<P, O>>() as u64, 2 * size_of::<u32>() as u64);
        page * pages + block * blocks
    }

    /// Plays faults from now on.
    pub fn set_faults(&mut self, faults: Option<Faults>) {
        self.faults = faults;
    }

    /// The faults that are played.
    pub fn faults_mut(&mut self) -> Option<&mut Faults> {
        self.faults.as_mut()
    }

    fn occupy(&mut self, channel: u32, after: Nanos, takes: Nanos) -> Nanos {
        let free = &mut self.free_at[channel as usize];
        *free = (*free).max(after) + takes;
        *free
    }

    fn check(&self, page: Ppn) -> Result<(), NandError> {
        if self.dead {
            return Err(NandError::PowerLost);
        }
        if page.0 as usize >= self.slots.len() {
            return Err(NandError::OutOfRange(page));
        }
        Ok(())
    }

    /// Returns whether the power is cut in the operation that begins now.
    fn is_cut(&mut self) -> bool {
        let Some(left) = self.faults.as_mut().and_then(|faults| faults.cut_after.as_mut()) else {
            return false;
        };
        self.dead = *left == 0;
        *left = left.saturating_sub(1);
        self.dead
    }

    fn remembers(&self) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.cuts)
    }
}

impl<P: Clone, O: Clone> Nand for MemoryNand<P, O> {
    type Page = P;
    type Oob = O;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&mut self, page: Ppn, after: Nanos) -> Result<PageRead<P, O>, NandError> {
        self.check(page)?;
        let done = self.occupy(self.geometry.channel_of(page), after, self.timing.read);
        match &self.slots[page.0 as usize] {
            Slot::Holds(data, oob) => Ok(PageRead { data: Some(data.clone()), oob: oob.clone(), done }),
            Slot::Erased => Err(NandError::Erased(page)),
            Slot::Unreadable => Err(NandError::Unreadable(page)),
        }
    }

    fn read_oob(&mut self, page: Ppn) -> Result<O, NandError> {
        self.check(page)?;
        match &self.slots[page.0 as usize] {
            Slot::Holds(_, oob) => Ok(oob.clone()),
            Slot::Erased => Err(NandError::Erased(page)),
            Slot::Unreadable => Err(NandError::Unreadable(page)),
        }
    }

    fn program(&mut self, page: Ppn, after: Nanos, data: &P, oob: &O) -> Result<Nanos, NandError> {
        self.check(page)?;
        let (block, index) = (self.geometry.block_of(page), self.geometry.index_of(page));
        let in_order = index == self.next[block.0 as usize];
        if !in_order || !matches!(self.slots[page.0 as usize], Slot::Erased) {
            return Err(NandError::Order(page));
        }
        let cut = self.is_cut();
        if self.remembers() {
            self.history.add(page, Slot::Erased);
        }
        self.next[block.0 as usize] = index + 1;
        let fails = self.faults.as_mut().is_some_and(|f| f.random.once_in(f.program_odds));
        if cut || !fails {
            self.slots[page.0 as usize] = Slot::Holds(data.clone(), oob.clone());
        } else {
            self.slots[page.0 as usize] = Slot::Unreadable;
            return Err(NandError::ProgramFailed(page));
        }
        if cut {
            return Err(NandError::PowerLost);
        }
        Ok(self.occupy(self.geometry.channel_of(page), after, self.timing.program))
    }

    fn erase(&mut self, block: BlockId, after: Nanos) -> Result<Nanos, NandError> {
        let first = self.geometry.page(block, 0);
        self.check(first)?;
        let cut = self.is_cut();
        if self.faults.as_mut().is_some_and(|f| f.random.once_in(f.erase_odds)) && !cut {
            return Err(NandError::EraseFailed(block));
        }
        let remembers = self.remembers();
        for index in 0..self.geometry.pages_per_block {
            let page = self.geometry.page(block, index);
            let old = std::mem::replace(&mut self.slots[page.0 as usize], Slot::Erased);
            if remembers {
                self.history.add(page, old);
            }
        }
        self.next[block.0 as usize] = 0;
        self.erases[block.0 as usize] += 1;
        if cut {
            return Err(NandError::PowerLost);
        }
        let (free, takes) = (self.free_at.iter().max().copied().unwrap_or(0), self.timing.erase);
        let done = free.max(after) + takes;
        self.free_at.fill(done);
        Ok(done)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        if self.dead || self.is_cut() {
            return Err(NandError::PowerLost);
        }
        self.history.clear();
        Ok(())
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.erases[block.0 as usize]
    }
}

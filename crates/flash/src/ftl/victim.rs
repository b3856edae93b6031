//! The closed block that garbage collection takes next.

/// The facts of the blocks, by number.
#[derive(Debug, Clone, Copy)]
pub struct BlockFacts<'a> {
    /// Live pages.
    pub live: &'a [u32],
    /// The time when the block was closed, in page programs since the start.
    pub closed_at: &'a [u64],
    /// Page programs since the start.
    pub now: u64,
    /// Pages in a block.
    pub pages_per_block: u32,
}

/// Chooses victims among closed blocks.
pub trait Victim: std::fmt::Debug + Send {
    /// A block was closed with so many live pages.
    fn closed(&mut self, block: u32, live: u32);
    /// The number of live pages of a closed block changed.
    fn changed(&mut self, block: u32, live: u32);
    /// A closed block is taken, as a victim or for another reason.
    fn taken(&mut self, block: u32);
    /// The next victim. A block without dead pages is never one.
    fn pick(&mut self, facts: BlockFacts<'_>) -> Option<u32>;
}

const END: u32 = u32::MAX;

/// Doubly linked lists of blocks; each block is in one of them at most.
#[derive(Debug)]
struct Lists {
    first: Vec<u32>,
    last: Vec<u32>,
    before: Vec<u32>,
    after: Vec<u32>,
    list_of: Vec<u32>,
}

impl Lists {
    fn new(blocks: u32, lists: u32) -> Self {
        let (all, lists) = (vec![END; blocks as usize], vec![END; lists as usize]);
        Self { first: lists.clone(), last: lists, before: all.clone(), after: all.clone(), list_of: all }
    }

    fn push(&mut self, list: u32, block: u32) {
        let last = std::mem::replace(&mut self.last[list as usize], block);
        self.before[block as usize] = last;
        self.after[block as usize] = END;
        if last == END {
            self.first[list as usize] = block;
        } else {
            self.after[last as usize] = block;
        }
        self.list_of[block as usize] = list;
    }

    fn remove(&mut self, block: u32) {
        let list = std::mem::replace(&mut self.list_of[block as usize], END) as usize;
        if list == END as usize {
            return;
        }
        let (before, after) = (self.before[block as usize], self.after[block as usize]);
        if before == END {
            self.first[list] = after;
        } else {
            self.after[before as usize] = after;
        }
        if after == END { self.last[list] = before } else { self.before[after as usize] = before }
    }
}

/// Takes the block with the fewest live pages; of several, the one that has been at that count for
/// longest.
#[derive(Debug)]
pub struct Greedy {
    lists: Lists,
}

impl Greedy {
    /// For so many blocks of so many pages.
    #[must_use]
    pub fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self { lists: Lists::new(blocks, pages_per_block + 1) }
    }
}

impl Victim for Greedy {
    fn closed(&mut self, block: u32, live: u32) {
        self.lists.push(live, block);
    }

    fn changed(&mut self, block: u32, live: u32) {
        self.lists.remove(block);
        self.lists.push(live, block);
    }

    fn taken(&mut self, block: u32) {
        self.lists.remove(block);
    }

    fn pick(&mut self, facts: BlockFacts<'_>) -> Option<u32> {
        let with_dead = &self.lists.first[..facts.pages_per_block as usize];
        with_dead.iter().copied().find(|&block| block != END)
    }
}

//! Block devices: memory, files and devices through io_uring, a faulty wrapper.
//!
//! * [`BlockDevice`] is the trait of every device: any byte range, synchronously.
//! * [`FileDevice`] is a block device or an image file, past the page cache if that means DMA.
//! * [`MemoryDevice`] holds its content in memory; [`FaultyDevice`] fails as drives do, from a
//!   seed; [`HookedDevice`] lets a test observe.
//! * [`MarkedDevice`] has ranges that were made unreadable on purpose.
//! * [`Gatherer`] reads many pieces at once; [`DirectQueue`] carries single reads and writes
//!   without waiting for them.

mod device;
mod direct;
mod disks;
mod error;
mod faulty;
mod file;
mod flash_counts;
mod gather;
mod holders;
mod hooked;
mod judgement;
mod limited;
mod lossy;
mod marked;
mod medium;
mod memory;
mod ring;
pub mod stream;
mod system;
mod tagged;
mod tags;

pub use device::{
    Background, BlockDevice, DirectFd, DirectIo, DirectMemory, DirectOperation, DirectRequest, Grains, Marks,
    Step, Stepped, SteppedCommand,
};
pub use direct::{DirectEnd, DirectQueue};
pub use error::{IoError, LostWrites, Operation};
pub use faulty::{Counts, FaultyDevice};
pub use file::{Direct, FileDevice, OpenMode, Options};
pub use flash_counts::FlashCounts;
pub use gather::{Engine, Gather, Gathered, Gatherer, Part, Sum};
pub use hooked::HookedDevice;
pub use judgement::{Faulty, Judgement, TagFault};
pub use limited::LimitedDevice;
pub use lossy::{Asker, Lossy};
pub use marked::{MAX_MARKS, MarkedDevice, MarksError};
pub use medium::DeviceMedium;
pub use memory::{MemoryDevice, NoMemory, check_memory, memory_available, try_zeroed_memory, zeroed_memory};
pub use pumice_base::durable::remove_unfinished;
pub use system::{
    allocate, ask_silent_peer, check_new_file, free_bytes, give_memory_back, prefetch, prefetch_far,
    raise_descriptor_limit, step_back,
};
pub use tagged::{read_in_order, read_judged};
pub use tags::{Reader, TagCounts, TagFormat, Tagged};

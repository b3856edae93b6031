//! Image files that become longer.

use super::intact::Intact;
use super::{Direct, FileDevice, Options};
use crate::error::{IoError, Operation};
use crate::system;
use pumice_base::buffer::ALIGNMENT;
use std::io;

impl FileDevice {
    /// Adds zeros to an image file, up to `size` bytes. The lock is kept all the time, so no other
    /// program has it in between. `options` are those of [`open`](Self::open): a file whose length
    /// kept it in the page cache may pass it afterwards.
    ///
    /// # Errors
    /// If it is a block device, was opened for reading only, was changed by others, is longer than
    /// that, or the system refuses.
    pub fn lengthened(mut self, size: u64, options: Options) -> Result<Self, IoError> {
        let (name, from) = (self.name.clone(), self.size);
        let fail = |error| IoError::new(&name, Operation::Write, from, 0, error);
        self.check_change(Operation::Write, from, 0)?;
        if self.is_block_device || size < from {
            return Err(fail(io::Error::from(io::ErrorKind::InvalidInput)));
        }
        self.file.set_len(size).map_err(fail)?;
        self.size = size;
        self.intact = Some(Intact::new(&self.file, size).map_err(fail)?);
        let grain = ALIGNMENT as u32;
        let may = options.direct == Direct::Auto && size.is_multiple_of(grain.into());
        if self.grain.is_none() && may && !system::lives_in_memory(&self.file) {
            self.grain = system::pass_page_cache(&self.file).is_ok().then_some(grain);
        }
        Ok(self)
    }
}

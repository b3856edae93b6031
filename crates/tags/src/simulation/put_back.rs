//! Writes as the model sees them, and bytes that come back.

use super::*;

/// The kind of command that puts bytes back.
pub(super) const PUT_BACK: u64 = 10;

impl Session<'_> {
    /// The model learns of a write, with the tag of each block. Returns the versions.
    pub(super) fn write(
        &mut self,
        blocks: &Range<u64>,
        data: &[u8],
        entry: impl Fn(u64, &[u8]) -> Entry,
    ) -> Vec<usize> {
        let may_fail = self.world.unwritable.is_some_and(|block| blocks.contains(&block));
        let size = self.world.geometry.block_bytes();
        let plain = self.world.model[blocks.start as usize..blocks.end as usize].iter_mut();
        let all = plain.zip(blocks.clone().zip(data.chunks(size)));
        all.map(|(plain, (block, bytes))| plain.write(bytes, Some(entry(block, bytes)), may_fail)).collect()
    }

    /// Bytes come back that were there, or that parity says were there: with adopted tags, or with
    /// those that are there.
    pub(super) fn put_back(&mut self, id: u64, blocks: Range<u64>) {
        let geometry = self.world.geometry;
        let mut data = self.new_data(&blocks);
        if self.world.random.one_in(2) {
            let size = geometry.block_bytes();
            for (block, bytes) in blocks.clone().zip(data.chunks_mut(size)) {
                let versions = &self.world.model[block as usize].versions;
                let which = self.world.random.below(versions.len() as u64) as usize;
                bytes.copy_from_slice(&versions[which]);
            }
        }
        let mut change = change(&geometry, blocks.start, &data, self.world.rules);
        let stays = self.world.random.one_in(2);
        let (request, versions) = if stays {
            let may_fail = self.world.unwritable.is_some_and(|block| blocks.contains(&block));
            let plain = self.world.model[blocks.start as usize..blocks.end as usize].iter_mut();
            let blocks = plain.zip(data.chunks(geometry.block_bytes()));
            let versions = blocks.map(|(plain, bytes)| {
                let present = plain.present.clone().filter(|_| !may_fail);
                plain.write(bytes, present, may_fail)
            });
            let versions = versions.collect();
            (Request::Restore(change.into()), versions)
        } else {
            if let Change::Tags { tags, others, .. } = &mut change {
                let all = blocks.clone().zip(data.chunks(geometry.block_bytes()));
                *tags = all.map(|(block, bytes)| adopted(&geometry, block, bytes).tag).collect();
                others.clear();
            }
            let versions = self.write(&blocks, &data, |block, bytes| adopted(&geometry, block, bytes));
            (Request::Write(change.into()), versions)
        };
        self.world.counts.restored += blocks.end - blocks.start;
        self.commands.insert(id, (blocks.clone(), Kind::Write { data, versions }));
        self.machine.begin(id, blocks, request);
    }
}

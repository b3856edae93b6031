//! The volume's commands, carried out.

use super::Engine;
use crate::kept::Kept;
use pumice_base::buffer::SharedBuffer;
use pumice_base::units::Role;
use pumice_offload::MAX_OPERATION;
use pumice_volume::log::Record;
use pumice_volume::near::{NearStep, StretchStep};
use pumice_volume::rows::{BLOCK, Rows};
use pumice_volume::sequencer::OpId;
use pumice_volume::{Action, ActionId, Command, Event, Outcome, RequestId};

/// A record that is to be written.
pub(super) struct Logged {
    action: ActionId,
    op: OpId,
    role: Role,
    at: u64,
    position: u64,
    nonce: u64,
    record: Record,
}

impl Logged {
    fn end(&self) -> u64 {
        self.at + self.record.bytes()
    }
}

impl Engine<'_> {
    pub(super) fn issue(&mut self, action: Action) {
        let Action { id, command } = action;
        if let Some(role) = command.role()
            && (self.kept.given_up.contains(&role) || self.carrier.drive(role).is_none())
        {
            return self.events.push(Event::Done(id, Outcome::Failed));
        }
        match command {
            // It ends when its record is written, which comes later.
            Command::Log { op, role, at, position, nonce, record } => {
                return self.records.push(Logged { action: id, op, role, at, position, nonce, record });
            }
            Command::Fold { op, plans, touches, request } => {
                self.write_records_of(op);
                let data = data_of(&self.kept, request);
                let buffers = self.buffers.entry(op).or_default();
                let moved = buffers.fold((self.kernels, &mut self.carrier.pool), &plans, &touches, data);
                self.carrier.moved.memory += moved;
                return self.events.push(Event::Done(id, Outcome::Done));
            }
            Command::Read { op, role, at, rows } => {
                self.buffers.entry(op).or_default();
                self.carrier.read(id, op, role, at, rows);
            }
            Command::Write { op, role, at, rows } => self.write(id, op, (role, at, rows)),
            Command::Copy { role, from, to } => self.carrier.copy(id, role, from, to),
            Command::Flush { role } => self.carrier.flush(id, role),
            Command::Put { role, at, bytes } => self.carrier.put(id, role, at, bytes),
            Command::Update { op, role, request, step } => return self.update(id, op, role, request, &step),
            Command::Gather { op, role, step } => return self.gather(id, op, role, &step),
            Command::Fetch { op, role, of, place, rows } => {
                self.buffers.entry(op).or_default();
                let from = self.nodes.as_ref().map_or(0, |nodes| nodes.slot(role, place));
                let first = rows.iter().next().unwrap_or(0);
                self.carrier.fetch(id, role, from, (op, of, first..first + rows.count()));
            }
            Command::StoreStretch { role, place, at, bytes, .. } => {
                let from = self.nodes.as_ref().map_or(0, |nodes| nodes.stretch_slot(role, place));
                self.carrier.store(id, role, from, at, bytes as usize);
            }
            Command::Store { role, place, at, rows, .. } => {
                let first = rows.iter().next().unwrap_or(0);
                let from = self.nodes.as_ref().map_or(0, |nodes| nodes.slot(role, place));
                let len = (u64::from(rows.count()) * BLOCK) as usize;
                self.carrier.store(id, role, from, at + u64::from(first) * BLOCK, len);
            }
        }
        assert!(self.carrier.has_begun(id), "E7: an action has an operation, whose end is its own");
    }

    /// A step of an operation on the near way.
    fn update(&mut self, id: ActionId, op: OpId, role: Role, request: Option<RequestId>, step: &NearStep) {
        let Ok(nodes) = &self.nodes else {
            return self.events.push(Event::Done(id, Outcome::Refused));
        };
        let update = nodes.update(op, role, step);
        let fill = step.fill.zip(data_of(&self.kept, request)).map(|(touch, data)| {
            data.part(touch.from as usize..(touch.from + touch.end - touch.start) as usize)
        });
        let targets = step.sums.iter().map(|sum| sum.target).filter(|target| *target != role);
        let sends = (op, step.node, targets.collect());
        self.carrier.update(id, role, sends, update, fill);
    }

    /// A step of a stretch.
    fn gather(&mut self, id: ActionId, op: OpId, role: Role, step: &StretchStep) {
        let Ok(nodes) = &self.nodes else {
            return self.events.push(Event::Done(id, Outcome::Refused));
        };
        let targets = if step.target == role { Vec::new() } else { vec![step.target] };
        let update = nodes.stretch(op, role, step);
        self.carrier.update(id, role, (op, step.node, targets), update, None);
    }

    fn write(&mut self, id: ActionId, op: OpId, (role, at, rows): (Role, u64, Rows)) {
        let buffers = self.buffers.entry(op).or_default();
        for run in crate::ranges::runs(rows) {
            for (piece, bytes) in buffers.new_rows(role, &run) {
                let offset = at + u64::from(piece.start) * BLOCK;
                self.carrier.write(id, role, offset, &bytes, false);
            }
        }
    }

    /// An operation's blocks are about to change or to go: records that wait are of those that it
    /// has now.
    pub(super) fn write_records_of(&mut self, op: OpId) {
        if self.records.iter().any(|record| record.op == op) {
            self.write_records();
        }
    }

    /// Writes the records of all writes that have come so far. Those that lie together on a member
    /// go in one operation: each has its own sums, so one that a crash tears hurts no other.
    pub(super) fn write_records(&mut self) {
        let mut records = std::mem::take(&mut self.records);
        // The order of records on a member is that of their numbers, but for the end of the log.
        records.sort_by_key(|record| record.role);
        groups(&records).for_each(|group| self.write_group(group));
        records.clear();
        self.records = records;
    }

    /// Writes records of a member that lie together.
    fn write_group(&mut self, group: &[Logged]) {
        let len = group.iter().map(|logged| logged.record.bytes()).sum::<u64>() as usize;
        let mut bytes = self.carrier.pool.take(len);
        let mut rest = &mut bytes[..len];
        for Logged { op, role, position, nonce, record, .. } in group {
            let buffers = self.buffers.entry(*op).or_default();
            let blocks: Vec<&[u8]> = match record.blocks() {
                0 => Vec::new(),
                _ => record.rows.iter().map(|row| buffers.new_row(*role, row)).collect(),
            };
            let (out, later) = std::mem::take(&mut rest).split_at_mut(record.bytes() as usize);
            record.encode_into(*nonce, *position, &blocks, out);
            rest = later;
        }
        self.carrier.moved.memory += 2 * len as u64;
        let actions = group.iter().map(|logged| logged.action).collect();
        let bytes = SharedBuffer::new(bytes, len);
        self.carrier.write_together(actions, group[0].role, group[0].at, bytes);
    }
}

/// The bytes that a request writes.
fn data_of(kept: &Kept, request: Option<RequestId>) -> Option<&SharedBuffer> {
    kept.asked.get(&request?)?.data.as_ref()
}

/// Records in pieces of one member that lie together and fit one operation.
fn groups(records: &[Logged]) -> impl Iterator<Item = &[Logged]> {
    let mut rest = records;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let together = |(one, next): &(&Logged, &Logged)| {
            let adjoin = one.role == next.role && one.end() == next.at;
            adjoin && next.end() - first.at <= MAX_OPERATION as u64
        };
        let count = 1 + rest.iter().zip(&rest[1..]).take_while(together).count();
        let (group, later) = rest.split_at(count);
        rest = later;
        Some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_volume::log::Kind;
    use pumice_volume::rows::Window;

    fn logged(role: u16, at: u64, blocks: u32) -> Logged {
        let record = Record {
            kind: Kind::Blocks,
            role: Role(role),
            generation: 1,
            sequence: 1,
            committed: 0,
            released: 0,
            window: Window(0),
            rows: Rows((1 << blocks) - 1),
            members: Vec::new(),
        };
        let (action, op) = (ActionId(0), OpId(0));
        Logged { action, op, role: Role(role), at: at * BLOCK, position: at * BLOCK, nonce: 0, record }
    }

    #[test]
    fn records_that_lie_together_are_one_group() {
        let of = |records: &[Logged]| groups(records).map(<[Logged]>::len).collect::<Vec<_>>();
        assert_eq!(of(&[]), [0_usize; 0]);
        // Another member; a gap; the end of the log.
        let records = [(0, 5, 1), (0, 7, 3), (1, 11, 1), (1, 13, 1), (1, 16, 1), (1, 0, 2)];
        assert_eq!(of(&records.map(|(role, at, blocks)| logged(role, at, blocks))), [2, 2, 1, 1]);
        // 17 blocks each: three of them are 204 KiB.
        let large: Vec<Logged> = (0..7).map(|i| logged(0, 17 * i, 16)).collect();
        assert_eq!(of(&large), [3, 3, 1]);
    }
}

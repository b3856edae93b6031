//! The machine under virtual time, as pure steps: lines that bytes pass one after another, slots,
//! threads of the host, and tasks that wait for each other.

use pumice_pacer::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A line by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineId(usize);

impl LineId {
    /// Its number, from 0.
    pub(super) fn number(self) -> usize {
        self.0
    }
}

/// A group of request slots by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotsId(usize);

/// A task by its number, from when it is added until the step that ends it: a later task may get
/// the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskId(usize);

/// Something with a rate that serves requests in the order of their arrival.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Bytes a second.
    rate: u64,
    /// From the start of a request to its first byte at the other end. Later requests do not wait
    /// for
    /// it.
    latency: Nanos,
    free: Nanos,
    /// For how long it has been passing bytes.
    busy: Nanos,
    /// Bytes that have passed.
    pub(super) bytes: u64,
}

impl Line {
    /// Start and end of a request of so many bytes that arrives now.
    fn pass(&mut self, now: Nanos, bytes: u64) -> (Nanos, Nanos) {
        let start = now.max(self.free);
        let takes = u128::from(bytes) * 1_000_000_000;
        let takes = takes.div_ceil(u128::from(self.rate));
        let takes = Nanos::try_from(takes).unwrap_or(Nanos::MAX / 4);
        self.free = start + takes;
        self.busy += takes;
        self.bytes += bytes;
        (start, self.free)
    }
}

/// Work of a task.
#[derive(Debug, Clone)]
pub(super) enum Work {
    /// Nothing: it only takes or gives back a slot.
    Nothing,
    /// So many bytes pass these lines, each line beginning as soon as the one before delivers.
    Route { lines: Vec<LineId>, bytes: u64 },
    /// A thread of the host computes, and moves bytes through host memory: it is busy until both
    /// are
    /// done.
    Thread { cost: Nanos, memory: u64 },
}

/// A piece of work, and what depends on it.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// Its work.
    pub(super) work: Work,
    /// Number of tasks that must end before it starts.
    pub(super) waits_for: u32,
    /// Takes a slot of these before it starts.
    pub(super) takes: Option<SlotsId>,
    /// Gives a slot back at its end.
    pub(super) gives: Option<SlotsId>,
    /// Tasks that wait for it.
    pub(super) then: Vec<TaskId>,
}

#[derive(Debug, Clone)]
struct Slots {
    free: u64,
    queue: VecDeque<TaskId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A task's bytes reach its line of this number; so far they are all there at `whole`.
    Reach {
        task: TaskId,
        hop: usize,
        whole: Nanos,
    },
    End(TaskId),
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Something moved on.
    Moved,
    /// A task has ended.
    Ended(TaskId),
}

/// The machine.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    now: Nanos,
    count: u64,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    lines: Vec<Line>,
    slots: Vec<Slots>,
    tasks: Vec<Task>,
    /// Tasks that have ended: their places are used again, so that memory is bounded by what is in
    /// progress.
    ended: Vec<TaskId>,
    memory: LineId,
    threads_free: u64,
    threads_queue: VecDeque<TaskId>,
    /// Busy time of all threads together.
    pub(super) threads_busy: Nanos,
}

impl Machine {
    /// A host with threads, and memory of so many bytes a second.
    pub(super) fn new(threads: u64, memory_rate: u64) -> Self {
        let mut machine = Self {
            now: 0,
            count: 0,
            events: BinaryHeap::new(),
            lines: Vec::new(),
            slots: Vec::new(),
            tasks: Vec::new(),
            ended: Vec::new(),
            memory: LineId(0),
            threads_free: threads,
            threads_queue: VecDeque::new(),
            threads_busy: 0,
        };
        machine.memory = machine.line(memory_rate, 0);
        machine
    }

    /// Adds a line of `rate` bytes a second (above 0).
    pub(super) fn line(&mut self, rate: u64, latency: Nanos) -> LineId {
        self.lines.push(Line { rate: rate.max(1), latency, free: 0, busy: 0, bytes: 0 });
        LineId(self.lines.len() - 1)
    }

    /// Adds a group of slots.
    pub(super) fn slots(&mut self, count: u64) -> SlotsId {
        self.slots.push(Slots { free: count, queue: VecDeque::new() });
        SlotsId(self.slots.len() - 1)
    }

    /// Adds a task. It starts when `start` is called, or when those it waits for have ended.
    pub(super) fn task(&mut self, task: Task) -> TaskId {
        if let Some(id) = self.ended.pop() {
            self.tasks[id.0] = task;
            return id;
        }
        self.tasks.push(task);
        TaskId(self.tasks.len() - 1)
    }

    /// The most tasks that there were at a time.
    #[cfg(test)]
    pub(super) fn most_tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The time.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// A line.
    pub(super) fn line_at(&self, line: LineId) -> &Line {
        &self.lines[line.0]
    }

    /// For how long each line has been passing bytes so far, by number.
    pub(super) fn busy(&self) -> Vec<Nanos> {
        // A line's time is taken when a request arrives: what lies ahead has not passed.
        let so_far = |line: &Line| line.busy - line.free.saturating_sub(self.now).min(line.busy);
        self.lines.iter().map(so_far).collect()
    }

    /// The line of host memory.
    pub(super) fn memory(&self) -> LineId {
        self.memory
    }

    /// Starts a task that waits for nothing, or whose last predecessor has ended.
    pub(super) fn start(&mut self, task: TaskId) {
        if let Some(slots) = self.tasks[task.0].takes {
            let slots = &mut self.slots[slots.0];
            if slots.free == 0 {
                slots.queue.push_back(task);
                return;
            }
            slots.free -= 1;
        }
        self.begin(task);
    }

    fn begin(&mut self, task: TaskId) {
        match &self.tasks[task.0].work {
            Work::Nothing => self.at(self.now, Event::End(task)),
            Work::Route { .. } => self.at(self.now, Event::Reach { task, hop: 0, whole: self.now }),
            Work::Thread { .. } if self.threads_free == 0 => self.threads_queue.push_back(task),
            &Work::Thread { cost, memory } => {
                self.threads_free -= 1;
                let (_, moved) = self.lines[self.memory.0].pass(self.now, memory);
                let end = moved.max(self.now + cost);
                self.threads_busy += end - self.now;
                self.at(end, Event::End(task));
            }
        }
    }

    fn at(&mut self, time: Nanos, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    /// Takes the earliest event. `None` if there is none left.
    pub(super) fn step(&mut self) -> Option<Step> {
        let Reverse((time, _, event)) = self.events.pop()?;
        self.now = time;
        match event {
            Event::Reach { task, hop, whole } => {
                let Work::Route { lines, bytes } = &self.tasks[task.0].work else { return Some(Step::Moved) };
                let (bytes, more) = (*bytes, hop + 1 < lines.len());
                let Some(&line) = lines.get(hop) else {
                    self.at(time, Event::End(task));
                    return Some(Step::Moved);
                };
                let line = &mut self.lines[line.0];
                let (start, end) = line.pass(time, bytes);
                // The last byte leaves a line when it has passed it, and it came no earlier than it
                // left the one before.
                let whole = whole.max(end) + line.latency;
                let first = start + line.latency;
                if more {
                    self.at(first, Event::Reach { task, hop: hop + 1, whole });
                } else {
                    self.at(whole, Event::End(task));
                }
                Some(Step::Moved)
            }
            Event::End(task) => {
                self.end(task);
                Some(Step::Ended(task))
            }
        }
    }

    fn end(&mut self, task: TaskId) {
        if matches!(self.tasks[task.0].work, Work::Thread { .. }) {
            self.threads_free += 1;
            if let Some(next) = self.threads_queue.pop_front() {
                self.begin(next);
            }
        }
        if let Some(slots) = self.tasks[task.0].gives {
            let slots = &mut self.slots[slots.0];
            match slots.queue.pop_front() {
                Some(next) => self.begin(next),
                None => slots.free += 1,
            }
        }
        for next in std::mem::take(&mut self.tasks[task.0].then) {
            let waiting = &mut self.tasks[next.0];
            waiting.waits_for -= 1;
            if waiting.waits_for == 0 {
                self.start(next);
            }
        }
        // Last: nothing refers to it any more.
        self.ended.push(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(lines: &[LineId], bytes: u64) -> Task {
        let work = Work::Route { lines: lines.to_vec(), bytes };
        Task { work, waits_for: 0, takes: None, gives: None, then: Vec::new() }
    }

    fn thread(cost: Nanos, memory: u64) -> Task {
        Task { work: Work::Thread { cost, memory }, ..route(&[], 0) }
    }

    /// Tasks and the times of their ends, in the order of their ends.
    fn ends(machine: &mut Machine) -> Vec<(TaskId, Nanos)> {
        let mut ended = Vec::new();
        while let Some(step) = machine.step() {
            if let Step::Ended(task) = step {
                ended.push((task, machine.now()));
            }
        }
        ended
    }

    #[test]
    fn requests_pass_a_line_one_after_another_and_latencies_overlap() {
        let mut machine = Machine::new(1, 1_000_000_000);
        let line = machine.line(1_000_000_000, 500);
        let (a, b) = (machine.task(route(&[line], 100)), machine.task(route(&[line], 50)));
        machine.start(a);
        machine.start(b);
        // One byte a nanosecond: a passes at 0 to 100, b at 100 to 150; both arrive 500 later.
        assert_eq!(ends(&mut machine), [(a, 600), (b, 650)]);
        assert_eq!((machine.line_at(line).busy, machine.line_at(line).bytes), (150, 150));
    }

    #[test]
    fn the_slowest_line_of_a_route_decides() {
        let mut machine = Machine::new(1, 1_000_000_000);
        let (fast, slow) = (machine.line(1_000_000_000, 10), machine.line(250_000_000, 20));
        let there = machine.task(route(&[fast, slow], 100));
        machine.start(there);
        // The first byte reaches the slow line at 10; 100 bytes take 400 there; 20 more to arrive.
        assert_eq!(ends(&mut machine), [(there, 430)]);
        let back = machine.task(route(&[slow, fast], 100));
        machine.start(back);
        // 400 on the slow line, its latency, then the fast line's latency: the fast line delays
        // nothing else.
        assert_eq!(ends(&mut machine), [(back, 430 + 400 + 20 + 10)]);
    }

    #[test]
    fn a_thread_is_busy_until_its_bytes_have_moved() {
        let mut machine = Machine::new(1, 1_000_000_000);
        let (stalls, computes) = (machine.task(thread(10, 100)), machine.task(thread(30, 5)));
        machine.start(stalls);
        machine.start(computes);
        assert_eq!(ends(&mut machine), [(stalls, 100), (computes, 130)]);
        assert_eq!(machine.threads_busy, 130);
    }

    #[test]
    fn two_threads_share_the_memory() {
        let mut machine = Machine::new(2, 1_000_000_000);
        let (a, b) = (machine.task(thread(10, 100)), machine.task(thread(10, 100)));
        machine.start(a);
        machine.start(b);
        assert_eq!(ends(&mut machine), [(a, 100), (b, 200)]);
    }

    #[test]
    fn a_slot_is_held_until_it_is_given_back() {
        let mut machine = Machine::new(1, 1_000_000_000);
        let (line, slots) = (machine.line(1_000_000_000, 0), machine.slots(1));
        let mut last = Vec::new();
        for _ in 0..2 {
            let folds = machine.task(Task { waits_for: 1, gives: Some(slots), ..route(&[line], 100) });
            let takes = Task { work: Work::Nothing, takes: Some(slots), then: vec![folds], ..route(&[], 0) };
            let takes = machine.task(takes);
            machine.start(takes);
            last.push((takes, folds));
        }
        let [(t0, f0), (t1, f1)] = last[..] else { panic!("two") };
        assert_eq!(ends(&mut machine), [(t0, 0), (f0, 100), (t1, 100), (f1, 200)]);
    }
}

//! Parts carried by a few threads, if the kernel offers no io_uring.

use super::{Flight, Gathered};
use crate::{BlockDevice, IoError, Judgement, read_judged};
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads at most: more would wait for the same few devices.
const THREADS: u32 = 16;

struct Job {
    flight: u64,
    part: usize,
    device: Arc<dyn BlockDevice>,
    offset: u64,
    len: usize,
}

struct Answer {
    flight: u64,
    part: usize,
    result: Result<(Vec<u8>, Option<Judgement>), IoError>,
}

/// A pool of threads. Each reads into memory of its own; the bytes are copied to their place when
/// they are taken.
pub(super) struct Threads {
    jobs: Option<Sender<Job>>,
    answers: Receiver<Answer>,
    threads: Vec<JoinHandle<()>>,
    flights: HashMap<u64, Flight>,
    next: u64,
}

fn work(jobs: &Mutex<Receiver<Job>>, answers: &Sender<Answer>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { flight, part, device, offset, len }) = job else { return };
        let mut bytes = vec![0; len];
        let result = read_judged(&*device, offset, &mut bytes).map(|judgement| (bytes, judgement));
        if answers.send(Answer { flight, part, result }).is_err() {
            return;
        }
    }
}

impl Threads {
    pub(super) fn new(depth: u32) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let (done, answers) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..depth.clamp(1, THREADS))
            .map(|_| {
                let (queue, done) = (Arc::clone(&queue), done.clone());
                std::thread::Builder::new().name("read".to_owned()).spawn(move || work(&queue, &done))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { jobs: Some(jobs), answers, threads, flights: HashMap::new(), next: 0 })
    }

    pub(super) fn submit(&mut self, flight: Flight, carried: &[usize], devices: &[Arc<dyn BlockDevice>]) {
        let number = self.next;
        self.next += 1;
        let jobs = self.jobs.as_ref().expect("there until the drop");
        for index in carried {
            let part = flight.gather.parts[*index];
            let device = Arc::clone(&devices[part.device]);
            let job = Job { flight: number, part: *index, device, offset: part.offset, len: part.len };
            jobs.send(job).expect("the threads live as long as this");
        }
        self.flights.insert(number, flight);
    }

    pub(super) fn next(&mut self, wait: bool) -> Option<Gathered> {
        while !self.flights.is_empty() {
            let answer = if wait { self.answers.recv().ok()? } else { self.answers.try_recv().ok()? };
            if let Some(done) = self.take(answer) {
                return Some(done);
            }
        }
        None
    }

    fn take(&mut self, answer: Answer) -> Option<Gathered> {
        let Answer { flight: number, part, result } = answer;
        let flight = self.flights.get_mut(&number).expect("an answer belongs to a flight");
        match result {
            Ok((bytes, judgement)) => {
                flight.gather.judged.extend(judgement.map(|judgement| (part, judgement)));
                let at = flight.gather.parts[part].at;
                flight.gather.buffer[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Err(error) => flight.gather.failures.push((part, error)),
        }
        flight.left -= 1;
        if flight.left > 0 {
            return None;
        }
        self.flights.remove(&number).map(|flight| flight.gather)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // No more jobs: each thread ends when it has no more to take.
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing to give back.
            let _ = thread.join();
        }
    }
}

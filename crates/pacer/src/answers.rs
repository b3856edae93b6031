//! Cache of recent answers, for a question that is put again.
//!
//! On a load without a period an answer depends on how long the drive has been idle, not on the
//! time of day, and idle intervals are asked about at the same ages: when they begin and where the
//! hazard's classes end. Between two prices the same few questions come hundreds of times.

use crate::Nanos;
use crate::price::Worth;

/// Answers that are remembered; a question has one place.
const PLACES: usize = 128;

/// Everything that an answer depends on, while factors of the hazard and service times stay as they
/// are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    /// Idle time of the drive, in nanoseconds.
    pub(crate) age: Nanos,
    pub(crate) mood: u8,
    /// A bit for each size that may be used.
    pub(crate) usable: u8,
    /// The bits of the price.
    pub(crate) price: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    question: Question,
    epoch: u64,
    /// With a time that counts from the start of the idle interval.
    answer: Worth,
}

/// The answers, 7 KiB; taken when it is made.
#[derive(Debug, Clone)]
pub(crate) struct Answers {
    entries: Vec<Entry>,
    epoch: u64,
}

impl Answers {
    pub(crate) fn new() -> Self {
        let question = Question { age: 0, mood: 0, usable: 0, price: 0 };
        let empty = Entry { question, epoch: 0, answer: Worth::Nothing(Nanos::MAX) };
        Self { entries: vec![empty; PLACES], epoch: 1 }
    }

    /// The hazard's factors or the service times have changed.
    pub(crate) fn clear(&mut self) {
        self.epoch += 1;
    }

    /// The answer to a question about an idle interval that began at `start`: as it was given
    /// before, or else as `find` gives it.
    pub(crate) fn get(&mut self, start: Nanos, question: Question, find: impl FnOnce() -> Worth) -> Worth {
        let mixed = (question.age ^ (u64::from(question.mood) << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = &mut self.entries[(mixed >> 57) as usize % PLACES];
        if entry.epoch == self.epoch && entry.question == question {
            return match entry.answer {
                // The end of time is no age.
                Worth::Nothing(until) if until < Nanos::MAX => Worth::Nothing(start.saturating_add(until)),
                answer => answer,
            };
        }
        let found = find();
        let answer = match found {
            Worth::Nothing(until) if until < Nanos::MAX => Worth::Nothing(until - start),
            answer => answer,
        };
        *entry = Entry { question, epoch: self.epoch, answer };
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_moves_with_the_interval_and_ends_with_its_reasons() {
        let mut answers = Answers::new();
        let question = Question { age: 500, mood: 3, usable: 127, price: 1.5_f64.to_bits() };
        let ask = |answers: &mut Answers, start, question, answer| {
            let mut asked = false;
            let found = answers.get(start, question, || {
                asked = true;
                answer
            });
            (found, asked)
        };
        let wait = Worth::Nothing(1_700);
        assert_eq!(ask(&mut answers, 1_000, question, wait), (wait, true));
        assert_eq!(ask(&mut answers, 5_000, question, wait), (Worth::Nothing(5_700), false));
        let start = Worth::Start(65_536, 7.0);
        for other in [
            Question { age: 501, ..question },
            Question { mood: 4, ..question },
            Question { usable: 63, ..question },
            Question { price: 1.25_f64.to_bits(), ..question },
        ] {
            assert_eq!(ask(&mut answers, 5_000, other, start), (start, true), "{other:?}");
            assert_eq!(ask(&mut answers, 9_000, other, wait), (start, false), "{other:?}");
        }
        answers.clear();
        let never = Worth::Nothing(Nanos::MAX);
        assert_eq!(ask(&mut answers, 1_000, question, never), (never, true));
        assert_eq!(ask(&mut answers, 2_000, question, wait), (never, false));
    }
}

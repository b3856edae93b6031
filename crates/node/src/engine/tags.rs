//! The results of checking tags of the blocks that a command read, combined.

use super::shape::{Shape, Unit};
use pumice_blockdev::Judgement;
use pumice_offload::{MAX_TAG_PLACES, TagFault, TagPlace, TagReport};

/// Results of the checks of tags that one worker has so far.
#[derive(Debug, Default)]
pub(crate) struct TagSums {
    /// Some drive has tags.
    any: bool,
    fit: [u64; 4],
    places: Vec<TagPlace>,
}

fn fault(fault: pumice_blockdev::TagFault) -> TagFault {
    match fault {
        pumice_blockdev::TagFault::Differs(origin) => TagFault::Differs(origin),
        pumice_blockdev::TagFault::Lost => TagFault::Lost,
    }
}

impl TagSums {
    /// Takes what tags say of a part of a unit that begins `at` bytes into it. `first` is where the
    /// command's window begins.
    pub(crate) fn take(
        &mut self,
        shape: &Shape,
        unit: &Unit,
        (source, at, first): (usize, usize, u32),
        judgement: &Judgement,
    ) {
        self.any = true;
        for (sum, count) in self.fit.iter_mut().zip(judgement.fit) {
            *sum += count;
        }
        for faulty in &judgement.faulty {
            let (from, to) = (at + faulty.at, at + faulty.at + faulty.len);
            for part in shape.parts(unit) {
                let (start, end) = (from.max(part.at), to.min(part.at + part.len as usize));
                if start < end {
                    self.places.push(TagPlace {
                        source,
                        stripe: part.stripe,
                        start: first + part.start + (start - part.at) as u32,
                        len: (end - start) as u32,
                        fault: fault(faulty.fault),
                    });
                }
            }
        }
        self.bound();
    }

    /// Takes what another worker has heard.
    pub(crate) fn merge(&mut self, other: Self) {
        self.any |= other.any;
        for (sum, count) in self.fit.iter_mut().zip(other.fit) {
            *sum += count;
        }
        self.places.extend(other.places);
        self.bound();
    }

    fn bound(&mut self) {
        if self.places.len() >= 2 * MAX_TAG_PLACES {
            self.places = first_places(std::mem::take(&mut self.places));
        }
    }

    /// The report; `None` if no drive has tags.
    pub(crate) fn report(self) -> Option<TagReport> {
        let Self { any, fit, places } = self;
        any.then(|| TagReport { fit, places: first_places(places) })
    }
}

/// The first places, by stripe, with those that touch joined.
fn first_places(mut places: Vec<TagPlace>) -> Vec<TagPlace> {
    places.sort_by_key(|place| (place.stripe, place.source, place.start));
    let mut first: Vec<TagPlace> = Vec::new();
    for place in places {
        match first.last_mut() {
            Some(last)
                if (last.stripe, last.source, last.start + last.len, last.fault)
                    == (place.stripe, place.source, place.start, place.fault) =>
            {
                last.len += place.len;
            }
            _ => first.push(place),
        }
    }
    first.truncate(MAX_TAG_PLACES);
    first
}

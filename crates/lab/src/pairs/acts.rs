//! Acts of the features in the room.

mod media;
mod orders;
mod processes;
mod scrubs;

pub(crate) use scrubs::{findings, scrub_args};

use crate::pairs::Failed;
use crate::pairs::clock::Clock;
use crate::pairs::feature::Feature;
use crate::pairs::world::World;

/// Carries out a feature until the time of the cell is over.
///
/// # Errors
/// If the cell cannot go on: something cannot be started again.
pub(crate) fn act(feature: Feature, world: &World, clock: &Clock) -> Result<(), Failed> {
    match feature {
        Feature::Scrub => scrubs::scrub(world, clock, &[]),
        Feature::Vouch => scrubs::scrub(world, clock, &["--vouch"]),
        Feature::Repair => scrubs::repair(world, clock),
        Feature::Heal => scrubs::heal(world, clock),
        Feature::Drives => scrubs::drives(world, clock),
        Feature::Protect => scrubs::protect(world, clock),
        Feature::Rebuild => orders::rebuild(world, clock),
        Feature::Replace => orders::replace(world, clock),
        Feature::AddRefused => orders::add_refused(world, clock),
        Feature::Fail => orders::fail(world, clock),
        Feature::Status => orders::status(world, clock),
        Feature::NodeRestart => processes::restart(world, clock),
        Feature::NodePause => processes::pause(world, clock),
        Feature::NodeKill => processes::kill(world, clock),
        Feature::ServeStop => processes::stop_serving(world, clock),
        Feature::ServeKill => processes::kill_serving(world, clock),
        Feature::FlashIdle => media::flash_idle(world, clock),
        Feature::TagCheckpoint => media::tag_checkpoint(world, clock),
        Feature::FullDisk => media::full_disk(world, clock),
        // The nodes have them from the beginning on.
        Feature::Window | Feature::Slowdown | Feature::SlowDrive => Ok(()),
    }
}

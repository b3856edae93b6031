//! Flash drives as they are opened: by the name that hosts see, and with a word on a long recovery.

use pumice_blockdev::BlockDevice;
use pumice_flash::device::{FlashDrive, FlashError, FlashSpec, Progress};
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::info;

/// The last part of a path: hosts are shown that, where it lies is the operator's affair.
pub(super) fn last_part(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Interval at which the progress of a drive's recovery is told.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Opens a flash drive, and makes it if nothing is at its path; also says whether it was made.
pub(super) fn open_flash(spec: &FlashSpec, label: Option<&str>) -> Result<(FlashDrive, bool), FlashError> {
    let name = label.map_or_else(|| last_part(&spec.path), str::to_owned);
    let (mut told, path) = (Instant::now(), spec.path.display());
    let (drive, made) =
        pumice_flash::device::open_telling(spec, &name, &mut |Progress { step, done, of }| {
            if told.elapsed() >= TOLD_EVERY {
                told = Instant::now();
                info!(drive = %name, %path, "recovering a flash drive: {done} of {of} {step}");
            }
        })?;
    let what = if made { "made a flash drive" } else { "recovered a flash drive" };
    info!(drive = %name, path = %spec.path.display(), used = drive.used_bytes(), "{what}");
    Ok((drive, made))
}

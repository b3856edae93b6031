//! Arguments common to the studies of a trace: the trace, and the output.

use clap::Args;
use pumice::text::{print, print_json};
use pumice_lab::study::Drive;
use pumice_lab::study::trace::Format;
use pumice_service::failure::Failure;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A device of a trace.
#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// The trace: CSV with a header, MSR Cambridge, SPC, blkparse text or fio log; plain, gzip or
    /// zstd
    #[arg(long)]
    pub(super) trace: PathBuf,
    /// Its format, if its first line does not show it: csv, msr, spc, blkparse, fio
    #[arg(long)]
    pub(super) format: Option<Format>,
    /// A device of the trace [default: the device with the most requests]
    #[arg(long)]
    pub(super) device: Option<String>,
    /// Model of the drive, for times that the trace does not record: ultrastar, caviar, deskstar,
    /// nvme
    #[arg(long)]
    pub(super) drive: Option<Drive>,
}

/// Form in which a study is shown.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Draw the figure of the study into an SVG file
    #[arg(long, value_parser = plot_path)]
    pub(super) plot: Option<PathBuf>,
}

impl ShowArgs {
    /// Draws and prints what was asked for.
    pub(super) fn show<R: Serialize>(
        &self,
        report: &R,
        svg: impl Fn(&R) -> String,
        human: impl Fn(&R) -> String,
    ) -> Result<ExitCode, Failure> {
        if let Some(path) = &self.plot {
            let is_new = !path.exists();
            if let Err(error) = std::fs::write(path, svg(report)) {
                if is_new {
                    // A part of a figure is none. The first error is told.
                    let _ = std::fs::remove_file(path);
                }
                return Err(Failure::new(format!("--plot: {}: {error}", path.display())));
            }
        }
        if self.json {
            print_json(report);
        } else {
            print(&human(report));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Checks the path of a figure before the study runs, so that an error shows early.
fn plot_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !folder.is_dir() {
        return Err(if path.is_dir() {
            "a folder".to_owned()
        } else {
            format!("no folder {}", folder.display())
        });
    }
    Ok(path)
}

/// The last part of a path, for the title of a figure.
pub(super) fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

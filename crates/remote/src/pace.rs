//! The pace of a node's drives: asked for, and measured.

use crate::RemoteNode;
use crate::answer::refused;
use pumice_nvme::spec::{Sqe, Status};
use pumice_offload::wire::{self, opcode};
use pumice_offload::{ErrorKind, NodeError, PaceFigures, PaceRequest, Paced};
use std::sync::PoisonError;

impl Paced for RemoteNode {
    fn pace(&self, request: &PaceRequest) -> Result<(), NodeError> {
        if !request.is_empty() {
            request.validate().map_err(|(field, why)| NodeError::invalid(field, why))?;
        }
        let bytes = wire::encode_pace(request);
        let mut sqe = Sqe::new(opcode::PACE, 0);
        sqe.set_dword(12, bytes.len() as u32);
        let status = self.ask(sqe, &bytes, &mut [])?.status;
        if !status.is_success() {
            // What can be seen without the node was checked here.
            let hours = status.code() == Status::INVALID_FIELD.code() && !request.windows.is_empty();
            let why = if hours {
                "the node's own hours ([pacing] window) have none in common with these"
            } else {
                ""
            };
            return Err(refused(self.name(), opcode::name(opcode::PACE), status, why));
        }
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner) = request.clone();
        Ok(())
    }

    fn pace_figures(&self) -> Result<Vec<PaceFigures>, NodeError> {
        let mut figures = Vec::new();
        for page in 0.. {
            let len = wire::FIGURES_HEADER + wire::FIGURES_BYTES * wire::FIGURES_PER_PAGE as usize;
            let mut bytes = vec![0; len];
            let mut sqe = Sqe::new(opcode::PACE_READ, 0);
            sqe.set_dword(10, page);
            sqe.set_dword(12, len as u32);
            let done = self.ask(sqe, &[], &mut bytes)?;
            if !done.status.is_success() {
                return Err(refused(self.name(), opcode::name(opcode::PACE_READ), done.status, ""));
            }
            bytes.truncate(done.received as usize);
            let (all, part) = wire::decode_figures(&bytes)
                .map_err(|e| NodeError::new(ErrorKind::Unreachable, format!("{}: {e}", self.name())))?;
            let empty = part.is_empty();
            figures.extend(part);
            if empty || figures.len() >= all as usize {
                break;
            }
        }
        Ok(figures)
    }
}

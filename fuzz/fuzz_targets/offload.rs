//! Any descriptor, result and description of the parity command set.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_offload::wire::{decode_grant, decode_command, decode_drives, decode_hosts, decode_result, decode_transfer, encode_command};

fuzz_target!(|data: &[u8]| {
    let _ = decode_transfer(data);
    let _ = decode_drives(data, 0);
    let _ = decode_hosts(data);
    let _ = decode_grant(data);
    if let Ok(command) = decode_command(data) {
        assert_eq!(encode_command(&command).len(), data.len());
        let _ = command.validate();
        let _ = decode_result(data, &command);
    }
});

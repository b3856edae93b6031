//! Any descriptor, result and description of the parity command set.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_offload::wire::{
    decode_command, decode_drives, decode_grant, decode_hosts, decode_result, decode_tagged, decode_transfer,
    encode_command, encode_tagged,
};

fuzz_target!(|data: &[u8]| {
    let _ = decode_transfer(data);
    let _ = decode_drives(data, 0);
    let _ = decode_hosts(data);
    let _ = decode_grant(data);
    if let Ok((format, blocks)) = decode_tagged(data) {
        assert_eq!(encode_tagged(format, &blocks).len(), data.len());
    }
    if let Ok(command) = decode_command(data) {
        assert_eq!(encode_command(&command).len(), data.len());
        let _ = command.validate();
        let _ = decode_result(data, &command);
    }
});

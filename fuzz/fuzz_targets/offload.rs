//! Any descriptor, result and description of the parity command set.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumice_offload::DriveId;
use pumice_offload::wire::{
    UpdateWords, decode_command, decode_drives, decode_grant, decode_hosts, decode_result, decode_tagged,
    decode_transfer, decode_update, encode_command, encode_tagged, encode_update,
};

fuzz_target!(|data: &[u8]| {
    let _ = decode_transfer(data);
    let _ = decode_drives(data, 0);
    let _ = decode_hosts(data);
    let _ = decode_grant(data);
    for len in [512, 4096, 65536] {
        let words = UpdateWords { drive: DriveId(1), slot: 0, record_at: 4096, len };
        if let Ok((update, fill)) = decode_update(words, data) {
            let (again, bytes) = encode_update(&update).expect("what was read can be said");
            assert_eq!((again, bytes.len() + fill.len()), (words, data.len()));
            let _ = update.validate();
        }
    }
    if let Ok((format, blocks)) = decode_tagged(data) {
        assert_eq!(encode_tagged(format, &blocks).len(), data.len());
    }
    if let Ok(command) = decode_command(data) {
        assert_eq!(encode_command(&command).len(), data.len());
        let _ = command.validate();
        let _ = decode_result(data, &command);
    }
});

# port, nqn, each, uuid: see scenario/volume_crash.rs
ports=$port nqns=$nqn digests=
. /members.sh
# A bitmap with some hundred bits, and room for a stripe log before the data.
# shellcheck disable=SC2086
must mdadm --create /dev/md0 --run --metadata=1.2 --level=5 --raid-devices="$each" --chunk=64 \
  --uuid="$uuid" --data-offset=4M --bitmap=internal --bitmap-chunk=64K $devices
settled() {
  [ "$(cat /sys/block/md0/md/resync_start)" = none ] && [ "$(cat /sys/block/md0/md/sync_action)" = idle ]
}
await 200 settled || fail "the first resync does not end: $(cat /proc/mdstat)"
[ "$(cat /sys/block/md0/md/degraded)" = 0 ] || fail "degraded: $(cat /proc/mdstat)"
must mdadm --stop /dev/md0
disconnect "$nqn"
step "mdadm --create, RAID-5, first resync"

# port, nqn, each, sum (of the whole array, or nothing), fill (yes or no): see scenario/volume.rs
ports=$port nqns=$nqn digests=
. /members.sh
# shellcheck disable=SC2086
must mdadm --assemble /dev/md0 $devices
[ "$(cat /sys/block/md0/md/degraded)" = 0 ] || fail "degraded: $(cat /proc/mdstat)"
[ "$(cat /sys/block/md0/md/resync_start)" = none ] || fail "a resync is due: $(cat /proc/mdstat)"
idle() { [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; }
await 100 idle || fail "it resyncs: $(cat /proc/mdstat)"
[ -z "$sum" ] || [ "$sum" = "$(sha256sum < /dev/md0)" ] || fail "the content is not what was written"
echo check > /sys/block/md0/md/sync_action
sleep 1
await 200 idle || fail "the check does not end: $(cat /proc/mdstat)"
result mismatches "$(cat /sys/block/md0/md/mismatch_cnt)"
step "assembled by mdadm, whole, checked"
if [ "$fill" = yes ]; then
  must /usr/sbin/mke2fs -q -t ext4 /dev/md0
  must mount -t ext4 /dev/md0 /mnt
  n=0
  while [ $n -lt 60 ]; do
    dd if=/dev/urandom of=/mnt/$n bs=$((n * 1500 + 1)) count=3 2> /dev/null || fail "writing"
    n=$((n + 1))
  done
  must umount /mnt
  result sum "$(sha256sum < /dev/md0)"
  step "ext4 made and filled"
fi
must mdadm --stop /dev/md0
disconnect "$nqn"
step "stopped"

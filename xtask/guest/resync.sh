# ports, nqns, each, bitmap: see scenario/cut.rs
digests=
. /members.sh
echo 300 > /proc/sys/dev/raid/speed_limit_min
echo 300 > /proc/sys/dev/raid/speed_limit_max
# shellcheck disable=SC2086
must mdadm --assemble --run /dev/md0 $devices
[ "$(cat /sys/block/md0/md/degraded)" = 0 ] || fail "degraded: $(cat /proc/mdstat)"
resyncs() { [ "$(cat /sys/block/md0/md/sync_action)" = resync ]; }
await 20 resyncs || fail "no resync: $(cat /proc/mdstat)"
step "mdadm --assemble, it resyncs"
halt_at resyncing
cat /proc/mdstat
echo 500000 > /proc/sys/dev/raid/speed_limit_max
echo 500000 > /proc/sys/dev/raid/speed_limit_min
whole() { [ "$(cat /sys/block/md0/md/resync_start)" = none ] && [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; }
await 200 whole || fail "the resync does not end: $(cat /proc/mdstat)"
# Superblocks say so 200 ms later.
sleep 2
step "resynced"
halt_at whole
echo check > /sys/block/md0/md/sync_action
sleep 1
await 200 whole || fail "the check does not end: $(cat /proc/mdstat)"
result mismatches "$(cat /sys/block/md0/md/mismatch_cnt)"
must mdadm --stop /dev/md0
for nqn in $nqns; do disconnect "$nqn"; done
step "the kernel's own check"

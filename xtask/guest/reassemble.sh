# ports, nqns, each, level, quiet_from, quiet_sum, busy_sum: see scenario/array.rs
digests="--hdr-digest --data-digest"
. /members.sh
# shellcheck disable=SC2086
must mdadm --assemble /dev/md0 $devices
[ "$(cat /sys/block/md0/md/degraded)" = 0 ] || fail "degraded: $(cat /proc/mdstat)"
idle() { [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; }
await 100 idle || fail "it resyncs: $(cat /proc/mdstat)"
echo check > /sys/block/md0/md/sync_action
sleep 1
await 200 idle || fail "the check does not end: $(cat /proc/mdstat)"
result mismatches "$(cat /sys/block/md0/md/mismatch_cnt)"
step "the kernel's own check"
unit=$((64 * (6 - level + 4)))
[ "$quiet_sum" = "$(dd if=/dev/md0 bs=${unit}k skip="$quiet_from" 2> /dev/null | sha256sum)" ] ||
  fail "the last quarter has changed"
[ "$busy_sum" = "$(dd if=/dev/md0 bs=${unit}k count="$quiet_from" 2> /dev/null | sha256sum)" ] ||
  fail "the first three quarters have changed"
must mdadm --stop /dev/md0
for nqn in $nqns; do disconnect "$nqn"; done
step "the content is as it was written"

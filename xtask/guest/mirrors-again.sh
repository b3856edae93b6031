# ports, nqns, each; one, near, far; quiet_md1, sum_md1: see scenario/mirrors.rs
digests=
. /members.sh
load raid1 raid10
# of NUMBER...: those of the devices
of() {
  # shellcheck disable=SC2086
  echo $devices | awk -v list="$*" '{ n = split(list, a, " "); for (i = 1; i <= n; i++) print $(a[i]) }'
}
# shellcheck disable=SC2046,SC2086
{
  must mdadm --assemble /dev/md1 $(of $one)
  must mdadm --assemble /dev/md2 $(of $near)
  must mdadm --assemble /dev/md3 $(of $far)
}
idle() { [ "$(cat "/sys/block/$1/md/sync_action")" = idle ]; }
for md in md1 md2 md3; do
  [ "$(cat /sys/block/$md/md/degraded)" = 0 ] || fail "degraded: $(cat /proc/mdstat)"
  await 100 idle $md || fail "it resyncs: $(cat /proc/mdstat)"
  echo check > /sys/block/$md/md/sync_action
  sleep 1
  await 200 idle $md || fail "the check does not end: $(cat /proc/mdstat)"
  result mismatches_$md "$(cat /sys/block/$md/md/mismatch_cnt)"
done
step "the kernel's own check"
[ "$sum_md1" = "$(dd if=/dev/md1 bs=1M skip="$quiet_md1" 2> /dev/null | sha256sum)" ] ||
  fail "the last quarter of the RAID-1 has changed"
for md in md1 md2 md3; do must mdadm --stop /dev/$md; done
for nqn in $nqns; do disconnect "$nqn"; done
step "the repaired copies are what was written"

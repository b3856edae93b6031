# Linux takes an array that a volume was. ports, nqns, each, expect (clean, resync, recovery or refused), sum (of the
# whole array, or nothing), synced (number of the last file, or nothing), more (yes: writes on until it is killed)
digests=
. /members.sh
. /volume-files.sh
md=/sys/block/md0/md
echo 300 > /proc/sys/dev/raid/speed_limit_min
halt_at connected
if [ "$expect" = refused ]; then
  # shellcheck disable=SC2086
  mdadm --assemble /dev/md0 $devices
  state=$(cat $md/array_state 2> /dev/null || echo none)
  case $state in
  none | clear | inactive) ;;
  *) fail "Linux started an array that is dirty and degraded: $state" ;;
  esac
  mdadm --stop /dev/md0
  for nqn in $nqns; do disconnect "$nqn"; done
  step "Linux refuses it: dirty and degraded"
  exit 0
fi
[ "$expect" != recovery ] || echo 300 > /proc/sys/dev/raid/speed_limit_max
# shellcheck disable=SC2086
must mdadm --assemble --run /dev/md0 $devices
if [ "$expect" = clean ]; then
  [ "$(cat $md/degraded) $(cat $md/resync_start)" = "0 none" ] || fail "not whole: $(cat /proc/mdstat)"
fi
if [ "$expect" = recovery ]; then
  recovers() { [ "$(cat $md/sync_action)" = recover ]; }
  await 20 recovers || fail "no recovery: $(cat /proc/mdstat)"
  from=0
  for member in $md/dev-*/recovery_start; do
    start=$(cat "$member")
    [ "$start" = none ] || from=$start
  done
  result recovered_from "$from"
fi
echo 500000 > /proc/sys/dev/raid/speed_limit_max
echo 500000 > /proc/sys/dev/raid/speed_limit_min
whole() {
  [ "$(cat $md/degraded) $(cat $md/resync_start) $(cat $md/sync_action)" = "0 none idle" ]
}
await 200 whole || fail "it does not become whole: $(cat /proc/mdstat)"
sleep 1
step "assembled by mdadm, whole ($expect)"
halt_at whole
[ -z "$sum" ] || [ "$sum" = "$(sha256sum < /dev/md0)" ] || fail "the content is not what was written"
echo check > $md/sync_action
sleep 1
await 200 whole || fail "the check does not end: $(cat /proc/mdstat)"
result mismatches "$(cat $md/mismatch_cnt)"
if [ -n "$synced" ]; then
  # Mounting replays ext4's journal.
  must mount -t ext4 /dev/md0 /mnt
  must umount /mnt
  must /usr/sbin/e2fsck -fn /dev/md0
  must mount -t ext4 /dev/md0 /mnt
  known_files "$synced"
  step "e2fsck finds nothing, every file with fsync is whole"
  if [ "$more" = yes ]; then
    echo "::mark writing" > /dev/ttyS1
    synced_files $((synced + 1)) 100000
  fi
  must umount /mnt
fi
result sum "$(sha256sum < /dev/md0)"
must mdadm --stop /dev/md0
for nqn in $nqns; do disconnect "$nqn"; done
step "checked, stopped"

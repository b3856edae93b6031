# ports, nqns, each, level, urls, tags: see scenario/heals.rs
digests=
. /members.sh
md=/sys/block/md0/md
# shellcheck disable=SC2086
must mdadm --create /dev/md0 --run --metadata=1.2 --level="$level" --raid-devices=6 --chunk=64 \
  --bitmap=none $devices
settled() { [ "$(cat $md/resync_start)" = none ] && [ "$(cat $md/sync_action)" = idle ]; }
sleep 1
await 200 settled || fail "the first resync does not end: $(cat /proc/mdstat)"
whole() { [ "$(cat $md/degraded)" = 0 ] || fail "degraded: $(cat /proc/mdstat)"; }
whole
step "mdadm --create, RAID-$level, first resync"

# fio writes the whole array with check sums; what it reads later must be that.
job() {
  fio --name=verify --filename=/dev/md0 --direct=1 --ioengine=libaio --iodepth=4 --rw=write --bs=64k \
    --verify=crc32c --verify_fatal=1 --randseed=20261122 "$@" > /tmp/fio.txt 2>&1
}
job --do_verify=0 || { cat /tmp/fio.txt; fail "fio writes"; }
sync
sleep 1
step "written with check sums"
halt_at written

if [ "$tags" = no ]; then
  # Without tags the rot must reach fio, or this scenario could not fail.
  if job --verify_only; then result wrong 0; else result wrong 1; fi
  step "fio has read what rotted"
  must mdadm --stop /dev/md0
  for nqn in $nqns; do disconnect "$nqn"; done
  exit 0
fi

job --verify_only || { cat /tmp/fio.txt; fail "fio has read wrong data"; }
whole
corrected() {
  sum=0
  for errors in $md/dev-*/errors; do sum=$((sum + $(cat "$errors"))); done
  echo $sum
}
result read_errors "$(corrected)"
step "fio verified, $(corrected) errors corrected"
check() {
  echo check > $md/sync_action
  sleep 1
  await 200 settled || fail "the check does not end: $(cat /proc/mdstat)"
}
check
whole
step "md's own check, $(corrected) errors corrected"
check
result mismatches "$(cat $md/mismatch_cnt)"
halt_at checked

# Before anything is read; the array has been idle for a while.
sleep 3
# shellcheck disable=SC2086
pumice scrub --heal --state-dir /run/pumice --settle 1s /dev/md0 $urls > /tmp/heal.txt 2>&1
status=$?
cat /tmp/heal.txt
[ $status = 1 ] || fail "the healing ended with status $status"
whole
[ "$(cat $md/sync_min) $(cat $md/sync_max)" = "0 max" ] ||
  fail "md's check is limited: $(cat $md/sync_min) $(cat $md/sync_max)"
[ ! -e /run/pumice/*.heal ] || fail "the record is still there"
step "pumice scrub --heal, $(corrected) errors corrected"
halt_at healed
job --verify_only || { cat /tmp/fio.txt; fail "fio has read wrong data after the healing"; }
check
result mismatches_after "$(cat $md/mismatch_cnt)"
whole
must mdadm --stop /dev/md0
for nqn in $nqns; do disconnect "$nqn"; done
step "verified again"

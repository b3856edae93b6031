# ports, nqns, each, level, bitmap: see scenario/array.rs
digests=
. /members.sh
# shellcheck disable=SC2086
must mdadm --create /dev/md0 --run --metadata=1.2 --level="$level" --raid-devices=6 --chunk=64 \
  $bitmap $devices
settled() { [ "$(cat /sys/block/md0/md/resync_start)" = none ] && [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; }
sleep 1
await 200 settled || fail "the first resync does not end: $(cat /proc/mdstat)"
[ "$(cat /sys/block/md0/md/degraded)" = 0 ] || fail "degraded: $(cat /proc/mdstat)"
step "mdadm --create, RAID-$level over six drives, first resync"

# The array in stripes: the first three quarters are written to all the time, the last quarter stays as it is.
echo 1024 > /sys/block/md0/md/stripe_cache_size
unit=$((64 * (6 - level + 4)))
stripes=$(($(cat /sys/block/md0/size) / 2 / unit))
quiet=$((stripes * 3 / 4))
result quiet_from $quiet
must dd if=/dev/urandom of=/dev/md0 bs=${unit}k seek=$quiet count=$((stripes - quiet)) oflag=direct
must dd if=/dev/urandom of=/dev/md0 bs=${unit}k count=$((quiet / 8)) oflag=direct
result quiet_sum "$(dd if=/dev/md0 bs=${unit}k skip=$quiet 2> /dev/null | sha256sum)"
step "the last quarter filled"

fio --filename=/dev/md0 --direct=1 --ioengine=libaio --size=$((quiet * unit))k --time_based --runtime=7200 \
  --refill_buffers --rw=randwrite --name=small --bs=4k --iodepth=8 --name=large --bs=64k --iodepth=2 \
  > /tmp/fio.txt 2>&1 &
load_=$!
sleep 2
halt_at load
[ -d /proc/$load_ ] || { cat /tmp/fio.txt; fail "fio has ended"; }
kill $load_
wait $load_
# 128: it was told to end.
case $? in 0 | 128) ;; *) cat /tmp/fio.txt; fail "fio" ;; esac
grep -E 'WRITE:|write:' /tmp/fio.txt
echo "::mark loaded" > /dev/ttyS1
sync
result busy_sum "$(dd if=/dev/md0 bs=${unit}k count=$quiet 2> /dev/null | sha256sum)"
must mdadm --stop /dev/md0
for nqn in $nqns; do disconnect "$nqn"; done
step "array stopped, disconnected"

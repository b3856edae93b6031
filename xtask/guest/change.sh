# ports, nqns, each: see scenario/change.rs
digests=
. /members.sh
# shellcheck disable=SC2086
set -- $devices
must mdadm --create /dev/md0 --run --metadata=1.2 --level=6 --raid-devices=6 --chunk=64 --bitmap=internal \
  --bitmap-chunk=1M "$1" "$2" "$3" "$4" "$5" "$6"
idle() { [ "$(cat /sys/block/md0/md/resync_start)" = none ] && [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; }
sleep 1
await 200 idle || fail "the first resync does not end: $(cat /proc/mdstat)"
must dd if=/dev/urandom of=/dev/md0 bs=1M count=64 oflag=direct
step "made and filled"
echo 3000 > /proc/sys/dev/raid/speed_limit_min
echo 3000 > /proc/sys/dev/raid/speed_limit_max
fio --filename=/dev/md0 --direct=1 --ioengine=libaio --size=32m --time_based --runtime=400 --refill_buffers --rw=randwrite \
  --name=small --bs=4k --iodepth=2 --rate_iops=50 > /tmp/fio.txt 2>&1 &
load_=$!
echo "::mark changing" > /dev/ttyS1
sleep 8
must mdadm /dev/md0 --fail "$3"
sleep 5
must mdadm /dev/md0 --remove "$3"
sleep 5
must mdadm /dev/md0 --re-add "$3"
sleep 1
await 100 idle || fail "the recovery does not end: $(cat /proc/mdstat)"
step "failed, removed, re-added, recovered by the bitmap"
must mdadm /dev/md0 --fail "$4"
sleep 1
must mdadm /dev/md0 --remove "$4"
must mdadm --zero-superblock "$4"
must mdadm /dev/md0 --add "$4"
sleep 1
await 100 idle || fail "the recovery does not end: $(cat /proc/mdstat)"
step "recovered from nothing"
must mdadm /dev/md0 --add "$7"
must mdadm /dev/md0 --replace "$2" --with "$7"
sleep 1
await 100 idle || fail "the replacement does not end: $(cat /proc/mdstat)"
sleep 5
must mdadm /dev/md0 --remove "$2"
step "replaced"
must mdadm /dev/md0 --add "$8"
must mdadm --grow /dev/md0 --raid-devices=7 --backup-file=/tmp/backup
sleep 1
await 200 idle || fail "the reshape does not end: $(cat /proc/mdstat)"
step "grown to seven members"
kill $load_
wait $load_
echo 500000 > /proc/sys/dev/raid/speed_limit_max
await 100 idle || fail "not idle: $(cat /proc/mdstat)"
sleep 2
halt_at whole
echo check > /sys/block/md0/md/sync_action
sleep 1
await 200 idle || fail "the check does not end: $(cat /proc/mdstat)"
result mismatches "$(cat /sys/block/md0/md/mismatch_cnt)"
must mdadm --stop /dev/md0
for nqn in $nqns; do disconnect "$nqn"; done
step "the kernel's own check"

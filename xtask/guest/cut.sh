# ports, nqns, each, bitmap: see scenario/cut.rs
digests=
. /members.sh
# shellcheck disable=SC2086
must mdadm --create /dev/md0 --run --metadata=1.2 --level=6 --raid-devices=6 --chunk=64 $bitmap $devices
settled() { [ "$(cat /sys/block/md0/md/resync_start)" = none ] && [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; }
sleep 1
await 200 settled || fail "the first resync does not end: $(cat /proc/mdstat)"
step "mdadm --create, first resync"
must dd if=/dev/urandom of=/dev/md0 bs=1M count=32 oflag=direct
step "filled"
# 80 stripes of 256 KiB, and some more.
fio --filename=/dev/md0 --direct=1 --ioengine=libaio --size=24m --time_based --runtime=300 --refill_buffers --rw=randwrite \
  --name=small --bs=4k --iodepth=64 > /tmp/fio.txt 2>&1 &
sleep 3
echo "::mark load" > /dev/ttyS1
# To the cut.
wait

# port, nqn, megabytes, seconds: see scenario/flash.rs
load nvme-tcp raid456
connect "$port" "$nqn" --keep-alive-tmo=5 --reconnect-delay=1
device=$(drive "$port" 1) || fail "no namespace"
must /usr/sbin/mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 "$device"
must mount -t ext4 "$device" /mnt
sync
halt_at made
dd if=/dev/urandom of=/mnt/file bs=1M count="$megabytes" 2> /dev/null || fail "writing"
must cp /mnt/file /mnt/copy
dd if=/dev/urandom of=/mnt/kept bs=1M count=4 2> /dev/null || fail "writing"
sync
step "ext4 with a file and its copy"
halt_at filled
must cmp /mnt/file /mnt/copy
rm /mnt/file /mnt/copy
sync
must fstrim /mnt
sync
halt_at trimmed

# Copies come and go, and fio writes, while the node is killed; what fio reads is in no cache.
must cp /mnt/kept /tmp/kept
sync
(
  while [ ! -e /tmp/enough ]; do
    cp /tmp/kept /mnt/again && sync && cmp /tmp/kept /mnt/again && rm /mnt/again || touch /tmp/differs
    sleep 1
  done
) &
copies_=$!
echo "::mark ext4 load" > /dev/ttyS1
verified_for "$seconds" /mnt/load --rw=randwrite --bs=4k --iodepth=8 --size=6m
echo "::mark ext4 done" > /dev/ttyS1
touch /tmp/enough
wait $copies_
[ ! -e /tmp/differs ] || fail "a copy differs"
must umount /mnt
must /usr/sbin/e2fsck -fn "$device"
step "ext4: load written and verified"
halt_at unmounted
must /usr/sbin/e2fsck -fn "$device"
must mount -t ext4 -o ro "$device" /mnt
must cmp /tmp/kept /mnt/kept
must umount /mnt
step "ext4: the same after the node was killed at rest"

members=
for nsid in 2 3 4; do
  members="$members $(drive "$port" $nsid)" || fail "no namespace $nsid"
done
md=/sys/block/md0/md
echo 500000 > /proc/sys/dev/raid/speed_limit_max
echo 500000 > /proc/sys/dev/raid/speed_limit_min
# shellcheck disable=SC2086
must mdadm --create /dev/md0 --run --metadata=1.2 --level=5 --raid-devices=3 --chunk=64 --bitmap=none $members
settled() { [ "$(cat $md/resync_start)" = none ] && [ "$(cat $md/sync_action)" = idle ]; }
whole() { [ "$(cat $md/degraded)" = 0 ] || fail "degraded: $(cat /proc/mdstat)"; }
sleep 1
await 200 settled || fail "the first resync does not end: $(cat /proc/mdstat)"
whole
step "mdadm --create, RAID-5 over three drives, first resync"
echo "::mark md load" > /dev/ttyS1
verified_for "$seconds" /dev/md0 --rw=randwrite --bsrange=4k-64k --iodepth=8 --size=16m
echo "::mark md done" > /dev/ttyS1
sync
whole
step "md: load written and verified"
halt_at verified
echo check > $md/sync_action
sleep 1
await 200 settled || fail "the check does not end: $(cat /proc/mdstat)"
whole
result mismatches "$(cat $md/mismatch_cnt)"
must mdadm --stop /dev/md0
result reconnects "$(dmesg | grep -c 'Successfully reconnected')"
disconnect "$nqn"
step "md: the kernel's own check"

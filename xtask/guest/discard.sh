# port, nqn, megabytes: see scenario/discard.rs
load nvme-tcp
connect "$port" "$nqn"
device=$(drive "$port" 1) || fail "no namespace"
[ "$(cat "/sys/block/${device##*/}/queue/discard_max_bytes")" -gt 0 ] || fail "the kernel sees no discard"
# All inode tables now, so that nothing is written later.
must /usr/sbin/mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 "$device"
sync
step "ext4 is made, with discard"
halt_at made
must mount -t ext4 "$device" /mnt
dd if=/dev/urandom of=/mnt/large bs=1M count="$megabytes" 2> /dev/null || fail "writing"
echo kept > /mnt/kept
sync
halt_at filled
rm /mnt/large
sync
must fstrim /mnt
sync
halt_at trimmed
[ "$(cat /mnt/kept)" = kept ] || fail "a file that was kept has changed"
must umount /mnt
must /usr/sbin/e2fsck -fn "$device"
# What was discarded reads as zeros.
must blkdiscard "$device"
must cmp -n 16777216 "$device" /dev/zero
disconnect "$nqn"
step "fstrim and blkdiscard: what was kept is there, the rest reads as zeros"

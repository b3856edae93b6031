# port, nqn: see scenario/filesystem.rs
load nvme-tcp
connect "$port" "$nqn"
device=$(drive "$port" 1) || fail "no namespace"
must /usr/sbin/mke2fs -q -t ext4 "$device"
must mount -t ext4 "$device" /mnt
mkdir /mnt/many
for n in 1 2 3 4 5 6 7 8; do
  dd if=/dev/urandom of=/mnt/large$n bs=1M count=2 2> /dev/null || fail "writing"
done
n=0
while [ $n -lt 100 ]; do
  dd if=/dev/urandom of=/mnt/many/$n bs=$((n * 100 + 1)) count=1 2> /dev/null || fail "writing"
  n=$((n + 1))
done
(cd /mnt && find . -type f | sort | xargs sha256sum) > /tmp/sums
must umount /mnt
disconnect "$nqn"
step "ext4: made, $(wc -l < /tmp/sums) files written, unmounted"
halt_at disconnected
connect "$port" "$nqn" --hdr-digest --data-digest
device=$(drive "$port" 1) || fail "no namespace after the node was away"
must /usr/sbin/e2fsck -fn "$device"
must mount -t ext4 -o ro "$device" /mnt
(cd /mnt && sha256sum -c /tmp/sums) > /tmp/checked || { grep -v OK /tmp/checked; fail "files have changed"; }
must umount /mnt
disconnect "$nqn"
step "ext4: the same after the node was killed and started again"

# port, nqn, sum: see scenario/volume.rs
load nvme-tcp
connect "$port" "$nqn"
device=$(drive "$port" 1) || fail "no namespace"
[ "$sum" = "$(sha256sum < "$device")" ] || fail "the content is not what Linux wrote"
must /usr/sbin/e2fsck -fn "$device"
must mount -t ext4 "$device" /mnt
(cd /mnt && find . -type f | sort | xargs sha256sum) > /tmp/sums
n=60
while [ $n -lt 90 ]; do
  dd if=/dev/urandom of=/mnt/$n bs=$((n * 900 + 1)) count=3 conv=fsync 2> /dev/null || fail "writing"
  n=$((n + 1))
done
(cd /mnt && find . -type f | sort | xargs sha256sum) > /tmp/sums
step "ext4: read, and written with fsync"
halt_at written
# The process that serves it was killed, and has come back on the same port.
n=90
while [ $n -lt 100 ]; do
  dd if=/dev/urandom of=/mnt/$n bs=$((n * 900 + 1)) count=3 conv=fsync 2> /dev/null || fail "writing"
  n=$((n + 1))
done
(cd /mnt && sha256sum -c /tmp/sums) > /tmp/checked || { grep -v OK /tmp/checked; fail "files have changed"; }
must umount /mnt
must /usr/sbin/e2fsck -fn "$device"
result sum "$(sha256sum < "$device")"
disconnect "$nqn"
step "ext4: the same after the volume's process was killed and started again"

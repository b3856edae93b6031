# port, nqn, first (number of a file): see scenario/volume_crash.rs
load nvme-tcp
. /volume-files.sh
connect "$port" "$nqn"
device=$(drive "$port" 1) || fail "no namespace"
if [ "$first" = 0 ]; then
  must /usr/sbin/mke2fs -q -t ext4 "$device"
  must mount -t ext4 "$device" /mnt
  # fio writes into a file system, and reads back.
  verified /mnt/fio --rw=randwrite --bs=4k --iodepth=8 --size=6m
  must umount /mnt
  must /usr/sbin/e2fsck -fn "$device"
  step "ext4 made, fio with check sums in it"
fi
must mount -t ext4 "$device" /mnt
[ "$first" = 0 ] || known_files $((first - 1))
echo "::mark loading" > /dev/ttyS1
# Writes that nobody flushes, beside files that are.
fio --name=load --filename=/mnt/load --direct=1 --ioengine=libaio --iodepth=4 --rw=randwrite --bs=4k \
  --size=6m --time_based --runtime=600 > /tmp/load.txt 2>&1 &
synced_files "$first" 100000

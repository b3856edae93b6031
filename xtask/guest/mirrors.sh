# ports, nqns, each; one, near, far (the numbers of each array's devices): see scenario/mirrors.rs
digests=
. /members.sh
load raid1 raid10
# of NUMBER...: those of the devices
of() {
  # shellcheck disable=SC2086
  echo $devices | awk -v list="$*" '{ n = split(list, a, " "); for (i = 1; i <= n; i++) print $(a[i]) }'
}
# With bitmaps nothing rests on how soon after one another the copies of a write arrive.
made="--run --metadata=1.2 --bitmap=internal --bitmap-chunk=1M"
# shellcheck disable=SC2046,SC2086
{
  must mdadm --create /dev/md1 $made --level=1 --raid-devices=3 $(of $one)
  must mdadm --create /dev/md2 $made --level=10 --layout=n2 --raid-devices=5 --chunk=64 $(of $near)
  must mdadm --create /dev/md3 $made --level=10 --layout=f2 --raid-devices=4 --chunk=64 $(of $far)
}
settled() {
  for md in md1 md2 md3; do
    [ "$(cat /sys/block/$md/md/resync_start)" = none ] || return 1
    [ "$(cat /sys/block/$md/md/sync_action)" = idle ] || return 1
  done
}
sleep 1
await 200 settled || fail "the first resync does not end: $(cat /proc/mdstat)"
step "mdadm --create: RAID-1 of three copies, RAID-10 near=2 on five and far=2 on four; first resync"

for md in md1 md2 md3; do
  size=$(($(cat /sys/block/$md/size) / 2048))
  quiet=$((size * 3 / 4))
  must dd if=/dev/urandom of=/dev/$md bs=1M seek=$quiet count=$((size - quiet)) oflag=direct
  result quiet_$md $quiet
  result sum_$md "$(dd if=/dev/$md bs=1M skip=$quiet 2> /dev/null | sha256sum)"
done
step "the last quarters filled"

fio --direct=1 --ioengine=libaio --time_based --runtime=600 --refill_buffers --rw=randwrite --bs=4k --iodepth=2 \
  --rate_iops=50 --size=12m --name=one --filename=/dev/md1 --name=near --filename=/dev/md2 --name=far \
  --filename=/dev/md3 > /tmp/fio.txt 2>&1 &
load_=$!
sleep 2
[ -d /proc/$load_ ] || { cat /tmp/fio.txt; fail "fio"; }
halt_at load
[ -d /proc/$load_ ] || { cat /tmp/fio.txt; fail "fio has ended"; }
kill $load_
wait $load_
for md in md1 md2 md3; do must mdadm --stop /dev/$md; done
for nqn in $nqns; do disconnect "$nqn"; done
step "arrays stopped, disconnected"

# port, second, nqn, seconds: see scenario/multipath.rs
load nvme-tcp
[ "$(cat /sys/module/nvme_core/parameters/multipath)" = Y ] || fail "the kernel has no native multipath"
result listed "$(nvme discover -t tcp -a "$host" -s "$port" | grep -c "^subnqn: *$nqn")"
connect "$port" "$nqn" --reconnect-delay=1
connect "$second" "$nqn" --reconnect-delay=1
# One device for both paths: its paths are hidden devices of their own.
heads() { ls -d /sys/block/nvme*n* | grep -v 'c[0-9]*n'; }
paths() { ls -d /sys/block/nvme*c*n* | wc -l; }
both() { [ "$(paths)" = 2 ]; }
await 10 both || fail "there are $(paths) paths"
[ "$(heads | wc -l)" = 1 ] || fail "not one device: $(heads)"
device=/dev/$(basename "$(heads)")
echo round-robin > /sys/class/nvme-subsystem/nvme-subsys0/iopolicy
step "two paths, one device"
(
  sleep 3
  nvme disconnect -d "$(controller "$port")" > /dev/ttyS0 2>&1
  sleep 3
  nvme connect -t tcp -a "$host" -s "$port" -n "$nqn" --reconnect-delay=1 > /dev/ttyS0 2>&1
  await 10 both
  nvme disconnect -d "$(controller "$second")" > /dev/ttyS0 2>&1
) &
verified "$device" --rw=randwrite --bs=4k --iodepth=8 --size=32m --time_based --runtime="$seconds"
wait
[ "$(paths)" = 1 ] || fail "at the end there are $(paths) paths"
dmesg | grep -i "I/O error" && fail "an I/O error"
disconnect "$nqn"
step "each path was cut under load: no I/O error, no check sum differs"

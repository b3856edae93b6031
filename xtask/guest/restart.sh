# port, nqn, seconds: see scenario/restart.rs
load nvme-tcp
connect "$port" "$nqn" --keep-alive-tmo=5 --reconnect-delay=1
device=$(drive "$port" 1) || fail "no namespace"
# Written once, before: still there at the end.
dd if=/dev/urandom of=/tmp/still bs=1M count=4 2> /dev/null
must dd if=/tmp/still of="$device" bs=1M oflag=direct conv=fsync
echo "::mark load" > /dev/ttyS1
# It is verified once all of it is written: a slow guest must get so far in the time.
verified "$device" --rw=randwrite --bs=4k --iodepth=8 --offset=4m --size=24m --time_based --runtime="$seconds"
# The verifying is done: the load has ended.
echo "::mark done" > /dev/ttyS1
must dd if="$device" of=/tmp/back bs=1M count=4 iflag=direct
must cmp /tmp/still /tmp/back
result state "$(attribute "$port" state)"
result reconnects "$(dmesg | grep -c 'Successfully reconnected')"
disconnect "$nqn"

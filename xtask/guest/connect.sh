# port, nqn, queues: see scenario/connect.rs
load nvme-tcp
nvme discover -t tcp -a "$host" -s "$port" > /tmp/found 2>&1 || { cat /tmp/found; fail "nvme discover"; }
grep -q "subnqn: *$nqn\$" /tmp/found || { cat /tmp/found; fail "discovery does not list $nqn"; }
step "nvme discover"

for digests in "" "--hdr-digest" "--data-digest" "--hdr-digest --data-digest"; do
  # shellcheck disable=SC2086
  connect "$port" "$nqn" --nr-io-queues="$queues" $digests
  count=$(attribute "$port" queue_count)
  result queue_count "$count"
  for nsid in 1 2; do
    device=$(drive "$port" $nsid) || fail "no namespace $nsid"
    # From each processor, for each has a queue.
    cpu=0
    while [ $cpu -lt "$queues" ]; do
      dd if=/dev/urandom of=/tmp/sent bs=1M count=2 2> /dev/null
      must taskset $((1 << cpu)) dd if=/tmp/sent of="$device" bs=256k seek=$((cpu * 16)) oflag=direct
      must taskset $((1 << cpu)) dd if="$device" of=/tmp/back bs=256k skip=$((cpu * 16)) count=8 iflag=direct
      must cmp /tmp/sent /tmp/back
      cpu=$((cpu + 1))
    done
  done
  disconnect "$nqn"
  step "connect, $queues I/O queue(s), ${digests:-no digests}"
done

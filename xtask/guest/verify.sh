# ports, nqns, size, full, digests: see scenario/verify.rs
load nvme-tcp
set -- $nqns
for port in $ports; do
  # shellcheck disable=SC2086
  connect "$port" "$1" $digests
  shift
  for nsid in 1 2; do
    device=$(drive "$port" $nsid) || fail "no namespace $nsid"
    block=$(cat "/sys/block/${device##*/}/queue/logical_block_size")
    [ -z "$full" ] || verified "$device" --rw=randwrite --bs=4k --iodepth=16 --size="$size"
    verified "$device" --rw=randwrite --bsrange="$block-128k" --blockalign="$block" --iodepth=8 --size="$size"
    verified "$device" --rw=write --bs=512k --iodepth=4 --offset=8m --size="$size"
    step "fio with check sums, namespace $nsid, blocks of $block bytes"
  done
done
for port in $ports; do
  must nvme disconnect -d "$(controller "$port")"
done

# The members of an array: connects to every subsystem, leaves their drives in $devices by role, and lets md resync as fast as it can.
# ports, nqns, each (drives of a subsystem): see scenario/array.rs; digests: options of connect, or nothing
load nvme-tcp raid456
devices=
set -- $nqns
for port in $ports; do
  # shellcheck disable=SC2086
  connect "$port" "$1" $digests
  shift
  nsid=1
  while [ $nsid -le "$each" ]; do
    devices="$devices $(drive "$port" $nsid)" || fail "no namespace $nsid at port $port"
    nsid=$((nsid + 1))
  done
done
echo 500000 > /proc/sys/dev/raid/speed_limit_max
echo 500000 > /proc/sys/dev/raid/speed_limit_min

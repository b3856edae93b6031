# port, nqn, sum (yes: of the whole volume): see scenario/volume_members.rs
load nvme-tcp
connect "$port" "$nqn" --keep-alive-tmo=5 --reconnect-delay=1 --ctrl-loss-tmo=600
device=$(drive "$port" 1) || fail "no namespace"
echo "::mark loading" > /dev/ttyS1
# Until the host says to go on.
(read -r answer < /dev/ttyS1; touch /tmp/enough) &
n=0
while [ $n = 0 ] || [ ! -e /tmp/enough ]; do
  verified "$device" --rw=randwrite --bs=4k --iodepth=8 --size=3m --offset=$((n % 8 * 4))m --randseed=$n
  n=$((n + 1))
done
result rounds $n
[ "$sum" = no ] || result sum "$(sha256sum < "$device")"
disconnect "$nqn"
step "fio with check sums, $n rounds"

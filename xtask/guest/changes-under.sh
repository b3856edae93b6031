# ports, nqns, each: see scenario/changes_under.rs. Every subsystem has the drives of one case; its array has the number of the case.
digests=
. /members.sh
all=$devices

# of CASE NUMBER: a drive of a case; both count from 0.
of() {
  skip_=$(($1 * each + $2))
  for drive_ in $all; do
    [ $skip_ -gt 0 ] || break
    skip_=$((skip_ - 1))
  done
  echo "$drive_"
}
is() { read -r is_ < "/sys/block/md$1/md/$2" && [ "$is_" = "$3" ]; }
settled() { await 100 is "$1" sync_action idle && await 100 is "$1" array_state clean || fail "array $1 does not settle: $(cat /proc/mdstat)"; }
# in_sync CASE: each role with the namespace that is in sync in it, as the kernel has them.
in_sync() {
  for device_ in "/sys/block/md$1/md"/dev-*; do
    # A replacement that took over has no link of its role. Nothing of this starts a program.
    read -r state_ < "$device_/state"
    read -r slot_ < "$device_/slot"
    read -r nsid_ < "/sys/block/${device_##*/dev-}/nsid"
    case $slot_:$state_ in none:* | *faulty* | *replacement*) ;; *in_sync*) printf ' %s:%s' "$slot_" "$nsid_" ;; esac
  done
}
members() { result "members$1" "$(in_sync "$1")"; }
# holds CASE ROLE NAMESPACE: it is in sync in that role.
holds() { case "$(in_sync "$1") " in *" $2:$3 "*) ;; *) return 1 ;; esac; }

for case in 0 1 2 3 4 5 6; do
  # The drives are zeros, whose parity is zeros.
  must mdadm --create "/dev/md$case" --run --assume-clean --metadata=1.2 --level=6 --raid-devices=4 --chunk=64 \
    --bitmap=internal "$(of $case 0)" "$(of $case 1)" "$(of $case 2)" "$(of $case 3)"
  must dd if=/dev/urandom of="/dev/md$case" bs=1M count=1 oflag=direct
done
for case in 1 2 3 5 6; do must mdadm "/dev/md$case" --add "$(of $case 4)"; done
for case in 0 1 2 3 4 5 6; do settled $case; done
step "seven arrays made"
halt_at made

# What is no change.
must mdadm /dev/md0 --add "$(of 0 4)"
! mdadm --grow /dev/md1 --raid-devices=6 || fail "an array with one spare grew by two members"
members 2
must mdadm --stop /dev/md2
members 0
members 1
step "a spare added, growing refused, an array stopped"
halt_at unchanged

# What is one.
must mdadm /dev/md3 --fail "$(of 3 2)"
must mdadm /dev/md4 --fail "$(of 4 1)"
must mdadm /dev/md4 --remove "$(of 4 1)"
must mdadm /dev/md4 --re-add "$(of 4 1)"
must mdadm /dev/md5 --replace "$(of 5 0)" --with "$(of 5 4)"
# Slow, to be under way when the pass ends.
echo 500 > /sys/block/md6/md/sync_speed_min
echo 500 > /sys/block/md6/md/sync_speed_max
must mdadm --grow /dev/md6 --raid-devices=5
await 50 is 6 sync_action reshape || fail "no reshape: $(cat /proc/mdstat)"
await 50 holds 3 2 5 && await 50 holds 4 1 2 && await 50 holds 5 0 5 || fail "a rebuild does not end: $(cat /proc/mdstat)"
for case in 3 4 5; do
  settled $case
  members $case
done
step "a spare took over, a member came back, one was replaced, a reshape began"
halt_at changed

echo 500000 > /sys/block/md6/md/sync_speed_max
echo 500000 > /sys/block/md6/md/sync_speed_min
settled 6
members 6
halt_at reshaped
for case in 0 1 3 4 5 6; do must mdadm --stop "/dev/md$case"; done
for nqn in $nqns; do disconnect "$nqn"; done

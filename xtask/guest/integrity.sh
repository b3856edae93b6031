# port, nqn, rounds, seconds: see scenario/integrity.rs
load nvme-tcp raid456 dm-integrity
# No udev here: libdevmapper makes the device files.
export DM_DISABLE_UDEV=1
mkdir -p /run/cryptsetup /dev/mapper
connect "$port" "$nqn"
echo 500000 > /proc/sys/dev/raid/speed_limit_max
kinds="plain journal bitmap tags"
block=

# integrity MODE DEVICE NAME: dm-integrity over a drive. It writes zeros everywhere first.
integrity() {
  must integritysetup format --batch-mode --integrity crc32c --sector-size "$block" "$2" > /tmp/wipe.txt
  [ "$1" = journal ] && mode= || mode=--integrity-bitmap-mode
  # shellcheck disable=SC2086
  must integritysetup open $mode --integrity crc32c "$2" "$3"
}
nsid=1
number=0
for kind in $kinds; do
  devices=
  member=0
  while [ $member -lt 4 ]; do
    device=$(drive "$port" $nsid) || fail "no namespace $nsid"
    block=$(cat "/sys/block/${device##*/}/queue/logical_block_size")
    case $kind in
    journal | bitmap)
      integrity $kind "$device" "$kind$member"
      device=/dev/mapper/$kind$member
      ;;
    esac
    devices="$devices $device"
    nsid=$((nsid + 1))
    member=$((member + 1))
  done
  # All drives read as zeros, and so parity is right.
  # shellcheck disable=SC2086
  must mdadm --create "/dev/md$number" --run --metadata=1.2 --level=5 --raid-devices=4 --chunk=64 \
    --bitmap=none --assume-clean $devices
  step "$kind: RAID-5 over four drives with blocks of $block bytes"
  number=$((number + 1))
done

# job NAME NUMBER FIELD FIO-OPTION...: I/O per second, which fio's terse output has in that field.
job() {
  name_=$1 number_=$2 field_=$3
  shift 3
  fio --name=job --filename="/dev/md$number_" --direct=1 --ioengine=libaio --time_based \
    --runtime="$seconds" --output-format=terse --randrepeat=0 "$@" > /tmp/fio.txt 2>&1 ||
    { cat /tmp/fio.txt; fail "fio $name_ on md$number_"; }
  cut -d ';' -f "$field_" /tmp/fio.txt | tail -n 1
}
# Before it is read, everything is written once.
number=0
for kind in $kinds; do
  must fio --name=fill --filename=/dev/md$number --direct=1 --ioengine=libaio --rw=write --bs=192k \
    --iodepth=4 --output=/tmp/fill.txt
  number=$((number + 1))
done
step "filled"
round=1
while [ "$round" -le "$rounds" ]; do
  number=0
  for kind in $kinds; do
    result "seqwrite_${kind}_$round" \
      "$(job seqwrite $number 49 --rw=write --bs=192k --iodepth=4)"
    result "randwrite_${kind}_$round" \
      "$(job randwrite $number 49 --rw=randwrite --bs=4k --iodepth=8)"
    result "flushed_${kind}_$round" \
      "$(job flushed $number 49 --rw=randwrite --bs=4k --iodepth=8 --fsync=32)"
    result "seqread_${kind}_$round" \
      "$(job seqread $number 8 --rw=read --bs=192k --iodepth=4)"
    result "randread_${kind}_$round" \
      "$(job randread $number 8 --rw=randread --bs=4k --iodepth=8)"
    number=$((number + 1))
  done
  step "round $round"
  round=$((round + 1))
done
number=0
for kind in $kinds; do
  verified /dev/md$number --rw=randwrite --bs=4k --iodepth=8 --size=8m
  must mdadm --stop /dev/md$number
  number=$((number + 1))
done
for member in 0 1 2 3; do
  must integritysetup close journal$member
  must integritysetup close bitmap$member
done
disconnect "$nqn"
step "fio with check sums"

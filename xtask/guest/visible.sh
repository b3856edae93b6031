# port, nqn, tags (of nvme-cli), options of the checks: see scenario/visible.rs
load nvme-tcp
connect "$port" "$nqn"
# generic NSID: its character device, which every namespace has, whatever the kernel makes of its format.
generic() { await 10 listed "$1" && listed "$1"; }
listed() {
  for device_ in /dev/ng*; do
    if nvme get-ns-id "$device_" 2> /dev/null | grep -q "namespace-id:$1\$"; then
      echo "$device_"
      return 0
    fi
  done
  return 1
}
# refused WORDS COMMAND...: must fail, and say these words.
refused() {
  words_=$1
  shift
  echo "+ $*"
  if "$@" > /tmp/answer 2>&1; then fail "'$*' succeeded"; fi
  cat /tmp/answer
  grep -qi "$words_" /tmp/answer || fail "'$*' did not say '$words_'"
}
# blocks COMMAND DEVICE FILE PRINFO [OPTION...]: a command for 8 blocks from number 16 on.
blocks() {
  command_=$1 device_=$2 file_=$3 prinfo_=$4
  shift 4
  # nvme-cli writes over the start of a file that is longer.
  [ "$command_" != read ] || rm -f "$file_"
  nvme "$command_" "$device_" -s 16 -c 7 -z $((8 * (size + 8))) -d "$file_" -p "$prinfo_" "$@"
}
verify() { nvme verify "$1" -s 16 -c 7 -p 7 -r 16 -a 0x1234 -m 0xffff; }
# The data of these blocks over the hidden face.
plain() { dd if="$1" of=/tmp/plain bs="$size" skip=16 count=8 iflag=direct; }

# Two drives: 1 and 2 are their hidden faces, 3 and 4 the visible ones.
for drive_ in 1 2; do
  size=$((drive_ == 1 ? 512 : 4096))
  of=/blocks/$size
  hidden=$(drive "$port" $drive_) || fail "no hidden face $drive_"
  visible=$(generic $((drive_ + 2))) || fail "no visible face $drive_"
  verified "$hidden" --size=2m --offset=1m --rw=randwrite --bs=4k --iodepth=4
  must blocks write "$visible" $of.good 7 -r 16 -a 0x1234 -m 0xffff
  must blocks read "$visible" /tmp/back 7 -r 16 -a 0x1234 -m 0xffff
  must cmp /tmp/back $of.good
  must verify "$visible"
  must plain "$hidden"
  must cmp /tmp/plain $of.data
  step "$size + 8: written with tuples, read over both faces"

  refused "guard check" blocks write "$visible" $of.bad-guard 7 -r 16 -a 0x1234 -m 0xffff
  refused "application tag check" blocks write "$visible" $of.good 7 -r 16 -a 0x4321 -m 0xffff
  refused "reference tag check" blocks write "$visible" $of.bad-reference 7 -r 16 -a 0x1234 -m 0xffff
  refused "guard check" blocks compare "$visible" $of.bad-guard 7 -r 16 -a 0x1234 -m 0xffff
  must blocks compare "$visible" $of.good 7 -r 16 -a 0x1234 -m 0xffff
  must blocks read "$visible" /tmp/back 7 -r 16 -a 0x1234 -m 0xffff
  must cmp /tmp/back $of.good
  step "$size + 8: wrong tuples are refused, and nothing of them is stored"

  # What the kernel itself can do with a format that has metadata.
  if block=$(named "$port" $((drive_ + 2))); then
    result "sectors_$size" "$(cat "/sys/block/${block##*/}/size")"
    result "integrity_$size" "$(cat "/sys/block/${block##*/}/integrity/format" 2> /dev/null || echo none)"
  else
    result "sectors_$size" 0
    result "integrity_$size" none
  fi
done

halt_at damaged
for drive_ in 1 2; do
  size=$((drive_ == 1 ? 512 : 4096))
  of=/blocks/$size
  hidden=$(named "$port" $drive_)
  visible=$(listed $((drive_ + 2)))
  refused "guard check" blocks read "$visible" /tmp/back 7 -r 16 -a 0x1234 -m 0xffff
  refused "guard check" verify "$visible"
  # Without a check it is given as it is; the tuple shows that it is wrong.
  must blocks read "$visible" /tmp/back 0
  cmp -l /tmp/back $of.good > /tmp/differ
  [ "$(wc -l < /tmp/differ)" = 1 ] || fail "$(wc -l < /tmp/differ) bytes differ"
  refused "no data available" plain "$hidden"
  must blocks write "$visible" $of.good 7 -r 16 -a 0x1234 -m 0xffff
  must plain "$hidden"
  must cmp /tmp/plain $of.data
  # What comes over the hidden face has the tuples that the visible one expects.
  must dd if=$of.data of="$hidden" bs="$size" seek=16 oflag=direct
  must blocks read "$visible" /tmp/back 7 -r 16 -a 0 -m 0xffff
  must nvme verify "$visible" -s 16 -c 7 -p 7 -r 16 -a 0 -m 0xffff
  step "$size + 8: damage is an error over both faces, and a write mends it"
done
disconnect "$nqn"

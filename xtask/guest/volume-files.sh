# Files whose content is known by their number, written with fsync.

content() { yes "line of file $1" | head -c $(($1 % 40 * 2500 + 7)); }
# synced_files FROM COUNT: reports the number of each that is on the medium.
synced_files() {
  n_=$1
  while [ $n_ -lt $(($1 + $2)) ]; do
    content $n_ | dd of=/mnt/known$n_ bs=64k conv=fsync 2> /dev/null || fail "writing file $n_"
    result synced $n_
    n_=$((n_ + 1))
  done
}
# known_files LAST: every file up to that one holds what was written.
known_files() {
  n_=0
  while [ $n_ -le "$1" ]; do
    content $n_ | cmp -s - /mnt/known$n_ || fail "file $n_ of $1 is not what was written with fsync"
    n_=$((n_ + 1))
  done
}

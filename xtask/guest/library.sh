# Words that every guest script has.

# To the host.
step() { echo "::step $*" > /dev/ttyS1; }
result() { echo "::result $*" > /dev/ttyS1; }
fail() {
  echo "FAILED: $*"
  echo "::fail $*" > /dev/ttyS1
  exit 1
}
# Stops at a named place until the host says to go on.
halt_at() {
  echo "::mark $1" > /dev/ttyS1
  read -r answer < /dev/ttyS1
}

# must COMMAND...: its output is for people; a failure ends the script.
must() {
  echo "+ $*"
  "$@" || fail "'$*' ended with status $?"
}
# await SECONDS COMMAND...: until it succeeds.
await() {
  tries=$(($1 * 10))
  shift
  while ! "$@" > /dev/null 2>&1; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.1
  done
}

# load MODULE...: with what each depends on; what is built in has no file.
load() {
  for top in "$@"; do
    while read -r module; do
      [ -d "/sys/module/$module" ] || insmod "/modules/$module.ko" || fail "module $module"
    done < "/modules/$top.list"
  done
}

# The block device with a serial.
disk() {
  for block in /sys/block/vd*; do
    if [ "$(cat "$block/serial")" = "$1" ]; then
      echo "/dev/${block##*/}"
      return 0
    fi
  done
  return 1
}

# connect PORT NQN [OPTION...]
connect() {
  port_=$1 nqn_=$2
  shift 2
  must nvme connect -t tcp -a "$host" -s "$port_" -n "$nqn_" "$@"
  await 10 controller "$port_" || fail "no controller for port $port_"
}
disconnect() { must nvme disconnect -n "$1"; }
# controller PORT: nvme0, or whichever was connected to that port.
controller() {
  for sys in /sys/class/nvme/nvme*; do
    if grep -q "trsvcid=$1" "$sys/address" 2> /dev/null; then
      echo "${sys##*/}"
      return 0
    fi
  done
  return 1
}
# drive PORT NSID: its block device, once it is there. Kernels scan namespaces in any order, and name them as they come.
drive() { await 10 named "$@" && named "$@"; }
named() {
  for block in /sys/block/"$(controller "$1")"n*; do
    if [ "$(cat "$block/nsid")" = "$2" ] && [ -b "/dev/${block##*/}" ]; then
      echo "/dev/${block##*/}"
      return 0
    fi
  done
  return 1
}
attribute() { cat "/sys/class/nvme/$(controller "$1")/$2"; }

# verified DEVICE FIO-OPTION...: writes, then reads back and compares check sums of every block.
verified() {
  device_=$1
  shift
  fio --name=verify --filename="$device_" --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 \
    --do_verify=1 --randseed=20261121 "$@" > /tmp/fio.txt 2>&1 || {
    status_=$?
    cat /tmp/fio.txt
    fail "fio on $device_ ended with status $status_: $(grep -m 1 -iE 'verify|error' /tmp/fio.txt)"
  }
  grep -E '(READ|WRITE):' /tmp/fio.txt
  # With a time limit fio reads nothing back if the writes use it up.
  grep -q 'READ:' /tmp/fio.txt || fail "fio on $device_ verified nothing"
}
# verified_for SECONDS DEVICE FIO-OPTION...: the same again and again for so long, at least once,
# with other data each time.
verified_for() {
  until_=$(($(date +%s) + $1))
  passes_=0
  shift
  while [ $passes_ = 0 ] || [ "$(date +%s)" -lt $until_ ]; do
    passes_=$((passes_ + 1))
    verified "$@" --randseed=$((20261121 + passes_))
  done
}

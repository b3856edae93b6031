# port, nqn: see scenario/admin.rs
load nvme-tcp
connect "$port" "$nqn"
device=$(drive "$port" 1) || fail "no namespace"
c=/dev/$(controller "$port")
# ask COMMAND...: must end with 0 and print something.
ask() {
  nvme "$@" > /tmp/answer 2>&1 || { cat /tmp/answer; fail "nvme $*"; }
  cat /tmp/answer
  [ -s /tmp/answer ] || fail "nvme $* printed nothing"
}
# field NAME: of "NAME : value"
field() { sed -n "s/^ *$1 *: *//p" /tmp/answer | head -n 1; }

ask id-ctrl "$c"
result subnqn "$(field subnqn)"
result namespaces "$(field nn)"
step "id-ctrl"
ask id-ns "$device"
result nsze "$(field nsze)"
step "id-ns"
ask smart-log "$c"
result critical_warning "$(field critical_warning)"
step "smart-log"
ask error-log "$c"
step "error-log"
nvme effects-log "$c" -o json > /tmp/json 2>&1; cat /tmp/json
nvme effects-log "$c" -o binary > /tmp/bin 2>&1; ls -l /tmp/bin; hexdump -C /tmp/bin | head -40
nvme effects-log "$c" -H > /tmp/h 2>&1; head -30 /tmp/h
nvme get-log "$c" -i 5 -l 4096 -b > /tmp/raw || fail "get-log 5"
hexdump -C /tmp/raw | head -40
ask effects-log "$c"
step "effects-log"
ask ana-log "$c"
result ana_state "$(field state)"
step "ana-log"
disconnect "$nqn"

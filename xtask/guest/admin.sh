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
# field NAME: of "NAME : value", with spaces or tabs
field() { sed -n "s/^[[:space:]]*$1[[:space:]]*:[[:space:]]*//p" /tmp/answer | head -n 1; }

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
# nvme-cli 2.3 looks for a PCI resource where the command set is not given, and then prints nothing.
ask effects-log "$c" -c 0
# effect NUMBER: the lowest bit, "supported", of a command for namespaces; 0 where it is not listed
effect() { sed -n '/I\/O/,$p' /tmp/answer | sed -n "s/^IOCS$1 .*\([0-9a-f]\)\$/\1/p" | grep -c '[13579bdf]'; }
result effects_write "$(effect 1)"
result effects_read "$(effect 2)"
step "effects-log"
ask ana-log "$c"
result ana_state "$(field state)"
step "ana-log"
disconnect "$nqn"

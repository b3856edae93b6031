#!/bin/busybox sh
# The first process of a guest: file systems, modules, the network; then the script on the disk "script".
# What the host shall know goes out on ttyS1 (library.sh has the words); the console, ttyS0, is for people.
export PATH=/usr/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /run/mdadm /run/lock /etc/nvme
# Held open to the end: a serial line that is closed forgets what is in flight.
exec 9<> /dev/ttyS1
stty raw -echo <&9
. /library.sh

load virtio_pci virtio_blk virtio_net
ip link set lo up
await 5 test -e /sys/class/net/eth0
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
host=10.0.2.2 # the host's 127.0.0.1, as QEMU's user network names it

echo 6f1b2a94-0c5e-4a57-9d0e-5a0f3c9b7e11 > /etc/nvme/hostid
echo nqn.2014-08.org.nvmexpress:uuid:6f1b2a94-0c5e-4a57-9d0e-5a0f3c9b7e11 > /etc/nvme/hostnqn

script=$(disk script) && cat "$script" > /run/script || echo "::fail no script" > /dev/ttyS1
# A guest whose host is gone ends by itself.
limit=$(sed -n "s/^limit='\(.*\)'/\1/p" /run/script)
(sleep "${limit:-600}"; poweroff -f) &

(
  . /run/script
)
status=$?
echo "-- the kernel's log"
dmesg | tail -n 60
echo "::exit $status" > /dev/ttyS1
sync
poweroff -f

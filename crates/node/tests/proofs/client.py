"""A host of its own: NVMe/TCP and DH-HMAC-CHAP from the pages and hashlib alone.

usage: client.py ADDRESS PORT SUBSYSTEM HOST HOST_KEY CONTROLLER_KEY

The node must accept every hash, and the groups none, ffdhe2048 and ffdhe3072. Each case connects
anew and says what it expects; the first that is wrong ends the program.
"""
import base64
import hashlib
import hmac
import secrets
import socket
import struct
import sys
import zlib
from fractions import Fraction

HASHES = {1: "sha256", 2: "sha384", 3: "sha512"}
# RFC 7919, appendix A: p = 2^b - 2^(b-64) + (floor(2^(b-130) e) + X) 2^64 - 1.
X = {2048: 560316, 3072: 2625351}
GROUPS = {0: None, 1: 2048, 2: 3072}


def prime(bits):
    e, term, n = Fraction(1), Fraction(1), 1
    while term * 2**bits > 1:
        e, n = e + term, n + 1
        term = Fraction(1, 1)
        for i in range(2, n + 1):
            term /= i
    return 2**bits - 2 ** (bits - 64) + (int(2 ** (bits - 130) * e) + X[bits]) * 2**64 - 1


P = {bits: prime(bits) for bits in X}


def digest(h, data):
    return hashlib.new(HASHES[h], data).digest()


def mac(h, key, data):
    return hmac.new(key, data, HASHES[h]).digest()


def key_of(text, owner):
    prefix, hh, body, rest = text.split(":")
    assert prefix == "DHHC-1" and rest == ""
    raw = base64.b64decode(body)
    secret, crc = raw[:-4], raw[-4:]
    assert struct.pack("<I", zlib.crc32(secret)) == crc
    return secret if hh == "00" else mac(int(hh), secret, owner.encode() + b"NVMe-over-Fabrics")


class Closed(Exception):
    pass


class Refused(Exception):
    def __init__(self, status):
        super().__init__(f"{status:#x}")
        self.status = status


class Queue:
    def __init__(self, qid=0, cntlid=0xFFFF, host=None, hostid=b"\x07" * 16):
        self.socket = socket.create_connection((ADDRESS, PORT), timeout=20)
        self.cid = 0
        self.qid = qid
        self.t = secrets.randbelow(60000)
        self.socket.sendall(struct.pack("<BBBBI", 0, 0, 128, 0, 128) + bytes(120))
        kind, _, _ = self.pdu()
        assert kind == 1, kind
        names = bytearray(1024)
        names[0:16] = hostid
        names[16:18] = struct.pack("<H", cntlid)
        for at, name in ((256, SUBSYSTEM), (512, host or HOST)):
            names[at : at + len(name)] = name.encode()
        extra = struct.pack("<HHHBxI", 0, qid, 31, 0, 60000 if qid == 0 else 0)
        result, _ = self.fabrics(1, extra, bytes(names))
        self.cntlid, self.asked = result & 0xFFFF, result >> 16 & 0xFFFF

    def exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except ConnectionError:
                raise Closed() from None
            if not part:
                raise Closed()
            data += part
        return data

    def pdu(self):
        head = self.exactly(8)
        kind, flags, _, _, plen = struct.unpack("<BBBBI", head)
        return kind, flags, head + self.exactly(plen - 8)

    def command(self, sqe, data=b"", room=0):
        self.cid += 1
        sqe = bytearray(sqe)
        sqe[1] = 0x40
        sqe[2:4] = struct.pack("<H", self.cid)
        kind = 0x01 if data else 0x5A
        sqe[24:40] = struct.pack("<QI3xB", 0, len(data) or room, kind)
        pdu = struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data))
        try:
            self.socket.sendall(pdu + sqe + data)
        except ConnectionError:
            raise Closed() from None
        got = b""
        while True:
            kind, flags, whole = self.pdu()
            if kind == 7:
                got += whole[whole[3] :]
                if flags & 8:
                    return 0, got
            elif kind == 5:
                result, _, _, cid, status = struct.unpack("<QHHHH", whole[8:24])
                assert cid == self.cid, (cid, self.cid)
                if status >> 1:
                    raise Refused(status >> 1 & 0x7FF)
                return result, got
            else:
                raise AssertionError(f"PDU {kind}: {whole.hex()}")

    def fabrics(self, kind, extra, data=b"", room=0):
        sqe = bytearray(64)
        sqe[0], sqe[4] = 0x7F, kind
        sqe[40 : 40 + len(extra)] = extra
        return self.command(sqe, data, room)

    def send(self, message):
        self.fabrics(5, b"\0\x01\x01\xe9" + struct.pack("<I", len(message)), message)

    def receive(self, room=4096):
        return self.fabrics(6, b"\0\x01\x01\xe9" + struct.pack("<I", room), room=room)[1]

    def is_closed(self):
        try:
            self.pdu()
        except Closed:
            return True
        return False

    def enable(self):
        # CC: enabled, entries of 64 and 16 bytes.
        self.fabrics(0, struct.pack("<BxxxIQ", 0, 0x14, 0x460001))
        while not self.fabrics(4, struct.pack("<BxxxI", 0, 0x1C))[0] & 1:
            pass

    def identify(self):
        sqe = bytearray(64)
        sqe[0], sqe[40] = 6, 1
        return self.command(sqe, room=4096)[1]

    def read(self):
        sqe = bytearray(64)
        sqe[0] = 2
        sqe[4:8] = struct.pack("<I", 1)
        return self.command(sqe, room=512)[1]


def negotiate(t, hashes, groups, sc_c=0, protocol=1):
    lists = bytes(hashes).ljust(30, b"\0") + bytes(groups).ljust(30, b"\0")
    head = struct.pack("<BBHHBB", 0, 0, 0, t, sc_c, 1)
    return head + bytes([protocol, 0, len(hashes), len(groups)]) + lists


def response(h, key, c, shared, seq, t, label, one, two):
    if shared is not None:
        c = mac(h, digest(h, shared), c)
    covered = c + struct.pack("<IHB", seq, t, 0) + label
    return mac(h, key, covered + one.encode() + b"\0" + two.encode())


class Exchange:
    """One authentication; what is given changes what is sent."""

    def __init__(self, queue, h=1, g=1, mutual=False, host_key=None, controller_key=None, **change):
        self.queue, self.h, self.g, self.mutual, self.change = queue, h, g, mutual, change
        self.host_key = key_of(host_key or HOST_KEY, HOST)
        self.controller_key = key_of(controller_key or CONTROLLER_KEY, SUBSYSTEM)
        self.t = queue.t = (queue.t + 1) & 0xFFFF

    def challenge(self):
        self.queue.send(negotiate(self.t, [self.h], [self.g]))
        return self.take_challenge(self.queue.receive())

    def take_challenge(self, m):
        assert m[:2] == b"\1\1", m[:8].hex()
        t, hl = struct.unpack("<HB", m[4:7])
        h, g, d, self.seq1 = struct.unpack("<BBHI", m[8:16])
        assert (t, hl, h, g) == (self.t, hashlib.new(HASHES[self.h]).digest_size, self.h, self.g)
        assert self.seq1 != 0 and len(m) == 16 + hl + d
        self.hl, self.c1, self.value = hl, m[16 : 16 + hl], m[16 + hl :]
        return self

    def reply(self):
        bits, own, shared = GROUPS[self.g], b"", None
        if bits:
            size, y = bits // 8, secrets.randbits(320) | 1 << 319
            assert 2 <= int.from_bytes(self.value, "big") <= P[bits] - 2
            own = pow(2, y, P[bits]).to_bytes(size, "big")
            shared = pow(int.from_bytes(self.value, "big"), y, P[bits]).to_bytes(size, "big")
        self.shared = shared
        own = self.change.get("value", own)
        self.seq2 = self.change.get("seq2", secrets.randbelow(2**32 - 1) + 1 if self.mutual else 0)
        self.c2 = self.change.get("c2", secrets.token_bytes(self.hl))
        if self.c2 == "c1":
            self.c2 = self.c1
        r1 = response(
            self.h, self.host_key, self.c1, shared, self.seq1, self.t, b"HostHost", HOST, SUBSYSTEM
        )
        r1 = self.change.get("r1", r1)
        d = self.change.get("dhvlen", len(own))
        head = struct.pack("<BBHH", 1, 2, 0, self.change.get("t", self.t))
        hl = self.change.get("hl", self.hl)
        message = head + bytes([hl, 0, int(self.mutual), 0]) + struct.pack("<HI", d, self.seq2)
        return message + r1 + self.c2 + own + self.change.get("more", b"")

    def run(self):
        self.challenge()
        self.queue.send(self.change.get("reply") or self.reply())
        m = self.queue.receive()
        if m[:2] == b"\0\xf1":
            return m[7]
        assert m[:2] == b"\1\3", m[:8].hex()
        assert struct.unpack("<H", m[4:6])[0] == self.t
        assert m[8] == int(self.mutual)
        if self.mutual:
            expected = response(
                self.h,
                self.controller_key,
                self.c2,
                self.shared,
                self.seq2,
                self.t,
                b"Controller",
                SUBSYSTEM,
                HOST,
            )
            if not hmac.compare_digest(expected, m[16 : 16 + self.hl]):
                self.queue.send(struct.pack("<BBHHBB", 0, 0xF0, 0, self.t, 1, 1))
                return "forged"
            self.queue.send(struct.pack("<BBHH", 1, 4, 0, self.t) + bytes(10))
        return "proven"


def proven(qid=0, cntlid=0xFFFF, **how):
    queue = Queue(qid, cntlid)
    assert queue.asked == 2, f"ATR alone: {queue.asked:#x}"
    outcome = Exchange(queue, **how).run()
    assert outcome == "proven", outcome
    return queue


def failed(expected, **how):
    queue = Queue()
    outcome = Exchange(queue, **how).run()
    assert outcome == expected, (outcome, expected, how.keys())
    assert queue.is_closed(), how.keys()


def refused(status, act):
    try:
        act()
    except Refused as error:
        assert error.status == status, f"{error.status:#x}, not {status:#x}"
        return
    raise AssertionError(f"it was to be refused with {status:#x}")


def every_pair():
    for h in HASHES:
        for g in GROUPS:
            for mutual in (False, True):
                queue = proven(h=h, g=g, mutual=mutual)
                queue.enable()
                assert len(queue.identify()) == 4096
                io = proven(1, queue.cntlid, h=h, g=g, mutual=mutual)
                assert len(io.read()) == 512
                yield


def wrong_keys():
    other = "DHHC-1:00:" + base64.b64encode(bytes(32) + struct.pack("<I", zlib.crc32(bytes(32)))).decode() + ":"
    for g in GROUPS:
        failed(1, g=g, host_key=other)
        # The host finds that the controller has another key, and says so.
        failed("forged", g=g, mutual=True, controller_key=other)
        yield
    # A reply that was right for another challenge.
    exchange = Exchange(Queue()).challenge()
    failed(1, r1=exchange.reply()[16:48])
    # A challenge counts once.
    yield
    # The controller's own challenge, sent back.
    failed(1, mutual=True, c2="c1")
    yield


def wrong_values():
    p = P[2048]
    for y in (0, 1, p - 1, p, 2**2048 - 1):
        failed(6, value=y.to_bytes(256, "big"))
        yield
    for change in (
        {"value": b""},
        {"value": bytes(257)},
        {"dhvlen": 255},
        {"dhvlen": 257},
        {"dhvlen": 65535},
        {"g": 0, "value": b"\2" * 256},
        {"hl": 48},
        {"hl": 0},
        {"hl": 255},
        {"r1": bytes(31)},
        {"more": b"\0"},
        {"t": 0xFFFF},
        {"mutual": True, "seq2": 0},
    ):
        failed(6, **change)
        yield


def wrong_messages():
    def says(expected, message, more=None):
        queue = Queue()
        queue.send(message)
        got = queue.receive()
        assert got[:2] == b"\0\xf1" and got[7] == expected, (expected, got.hex())
        assert queue.is_closed()

    says(4, negotiate(1, [9], [1]))
    says(5, negotiate(1, [1], [7]))
    says(5, negotiate(1, [1], [3]))
    says(3, negotiate(1, [1], [1], sc_c=1))
    says(2, negotiate(1, [1], [1], protocol=2))
    says(7, b"\7\7" + bytes(14))
    says(7, b"\1\4" + bytes(14))
    says(6, negotiate(1, [1], [1])[:-1])
    says(6, negotiate(1, [1], [1]) + b"\0")
    yield
    queue = Queue()
    got = queue.receive()
    assert got[:2] == b"\0\xf1" and got[7] == 7 and queue.is_closed()
    yield
    # Room for less than the message.
    queue = Queue()
    queue.send(negotiate(1, [1], [1]))
    got = queue.receive(64)
    assert got[:2] == b"\0\xf1" and got[7] == 6 and queue.is_closed()
    yield
    for bad in (b"\0\x01\x01\xe8\x10\0\0\0", b"\0\x01\x01\xe9\x0f\0\0\0"):
        queue = Queue()
        refused(0x002, lambda: queue.fabrics(5, bad, bytes(16)))
        assert Exchange(queue).run() == "proven"
        yield


def order():
    # Nothing but authentication before the proof.
    queue = Queue()
    for act in (
        queue.identify,
        queue.enable,
        lambda: queue.fabrics(4, struct.pack("<BxxxI", 1, 0)),
    ):
        refused(0x191, act)
    exchange = Exchange(queue)
    exchange.challenge()
    refused(0x191, queue.identify)
    queue.send(exchange.reply())
    refused(0x191, queue.identify)
    assert queue.receive()[:2] == b"\1\3"
    yield
    # An I/O queue proves itself too, and the same name.
    queue.enable()
    io = Queue(1, queue.cntlid)
    refused(0x191, io.read)
    assert Exchange(io).run() == "proven"
    io.read()
    refused(0x182, lambda: Queue(2, queue.cntlid, host=HOST + "x"))
    yield
    # Again, with commands between the messages. A number of the last exchange is refused.
    for g in GROUPS:
        exchange = Exchange(io, g=g, mutual=True, seq2=77 + g)
        exchange.challenge()
        io.read()
        io.send(exchange.reply())
        io.read()
        assert io.receive()[:2] == b"\1\3"
        io.read()
        io.send(struct.pack("<BBHH", 1, 4, 0, exchange.t) + bytes(10))
        io.read()
        yield
    assert Exchange(io, mutual=True, seq2=79).run() == 6
    # The whole association ends with it.
    assert io.is_closed() and queue.is_closed()
    yield


ADDRESS, PORT, SUBSYSTEM, HOST, HOST_KEY, CONTROLLER_KEY = sys.argv[1:7]
PORT = int(PORT)
for part in (every_pair, wrong_keys, wrong_values, wrong_messages, order):
    print(part.__name__, sum(1 for _ in part()), flush=True)

# SPDX-License-Identifier: Apache-2.0
"""Two hosts whose packets pass through this process, which changes one bit.

Each host is a network namespace with one TUN device. This process reads the packets of each device
and writes them to the other one. Needs root, the command ip and /dev/net/tun.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import selectors
import struct
import subprocess
import threading
from collections.abc import Iterator

import netns

TUNSETIFF = 0x400454CA
IFF_TUN_WITHOUT_HEADER = 0x0001 | 0x1000
# Large packets, because Python handles each of them.
MTU = 60_000
TCP = 6


def checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def payload_start(packet: bytes) -> int:
    """Offset of the TCP payload in an IPv4 packet; the packet length if there is none."""
    if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != TCP:
        return len(packet)
    tcp = (packet[0] & 15) * 4
    return min(len(packet), tcp + (packet[tcp + 12] >> 4) * 4)


def change_bit(packet: bytes, at: int, bit: int) -> bytes:
    """The packet with one bit of byte `at` inverted and a correct TCP checksum."""
    changed = bytearray(packet)
    changed[at] ^= 1 << bit
    tcp = (packet[0] & 15) * 4
    changed[tcp + 16 : tcp + 18] = b"\0\0"
    length = len(packet) - tcp
    pseudo_header = packet[12:20] + struct.pack("!HH", TCP, length)
    sum_of_all = checksum(pseudo_header + bytes(changed[tcp:]))
    changed[tcp + 16 : tcp + 18] = struct.pack("!H", sum_of_all)
    return bytes(changed)


class Wire:
    """Hosts 0 and 1 with the addresses 10.78.0.1 and 10.78.0.2 on the device "wire".

    Inverts bit `bit` of byte `change_at`, counted over all TCP payload between the hosts.
    """

    def __init__(self, change_at: int, bit: int):
        self.change_at = change_at
        self.bit = bit
        self.changed = False
        self.seen = 0
        self.name = f"chaos{os.getpid()}-{secrets.token_hex(2)}"
        self.spaces: list[str] = []
        self.devices: list[int] = []
        self.stop_reading, self.stop_writing = os.pipe()
        self.thread = threading.Thread(target=self._forward, name=self.name, daemon=True)

    def address(self, host: int) -> str:
        return f"10.78.0.{host + 1}"

    def __enter__(self):
        try:
            for host in range(2):
                self._add_host(host)
        except OSError:
            self._remove()
            raise
        self.thread.start()
        return self

    def __exit__(self, *_):
        os.write(self.stop_writing, b"x")
        self.thread.join()
        self._remove()

    def _remove(self):
        for descriptor in (*self.devices, self.stop_reading, self.stop_writing):
            os.close(descriptor)
        for space in self.spaces:
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

    def _add_host(self, host: int):
        space = f"{self.name}-{host}"
        netns.run("ip", "netns", "add", space)
        self.spaces.append(space)
        with self.inside(host):
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
            self.devices.append(device)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"wire", IFF_TUN_WITHOUT_HEADER))
        netns.run("ip", "-n", space, "link", "set", "wire", "mtu", str(MTU), "addrgenmode", "none")
        netns.run("ip", "-n", space, "address", "add", f"{self.address(host)}/24", "dev", "wire")
        netns.run("ip", "-n", space, "link", "set", "wire", "up")
        netns.run("ip", "-n", space, "link", "set", "lo", "up")

    @contextlib.contextmanager
    def inside(self, host: int) -> Iterator[None]:
        """Within the context, the calling thread and processes that it starts are on this host."""
        with (
            open("/proc/thread-self/ns/net") as outside,
            open(f"/run/netns/{self.spaces[host]}") as space,
        ):
            netns.enter(space.fileno())
            try:
                yield
            finally:
                netns.enter(outside.fileno())

    def _forward(self):
        selector = selectors.DefaultSelector()
        for device, other in (self.devices, self.devices[::-1]):
            selector.register(device, selectors.EVENT_READ, other)
        selector.register(self.stop_reading, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == self.stop_reading:
                    return
                packet = os.read(key.fd, MTU + 100)
                # A device that is full or down drops the packet, as a network may.
                with contextlib.suppress(OSError):
                    os.write(key.data, self._changed(packet))

    def _changed(self, packet: bytes) -> bytes:
        start = payload_start(packet)
        before = self.seen
        self.seen += len(packet) - start
        if not before <= self.change_at < self.seen:
            return packet
        self.changed = True
        return change_bit(packet, start + self.change_at - before, self.bit)


def why_not() -> str | None:
    """Why a Wire cannot be made here, or None."""
    if missing := netns.why_not():
        return missing
    try:
        with Wire(0, 0):
            return None
    except OSError as error:
        return f"no network namespaces with TUN devices here: {error}"

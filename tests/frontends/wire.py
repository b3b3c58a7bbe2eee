# SPDX-License-Identifier: Apache-2.0
"""A tapped cable between two hosts: packets pass through this process.

Instead of the bridge of a netns.Network, a thread carries each packet from one host to the other.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import select
import socket
import struct
import threading
from typing import Callable

import netns

ETH_P_ALL = 3
SIOCETHTOOL = 0x8946
# ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO: checksums, and segmentation by card and kernel.
OFFLOADS = (0x17, 0x1F, 0x24)


def _switch_off_offloads(interface: str) -> None:
    """Make packets look as on a real cable: with checksums, and at most as long as the MTU."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in OFFLOADS:
            value = array.array("I", [command, 0])
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(any_socket, SIOCETHTOOL, request.ljust(40, b"\0"))


def _sum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


class TappedWire:
    """A tapped cable between hosts 0 and 1 of a network, inside a `with` block.

    change: receives the data of a TCP packet, and returns the data to deliver, of the same length.
    """

    def __init__(self, network: netns.Network, change: Callable[[bytes], bytes]) -> None:
        self.changed = 0
        self._network = network
        self._change = change
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> TappedWire:
        bridge = f"{self._network.name}-bridge"
        self._ends = []
        with open("/proc/thread-self/ns/net") as outside, open(f"/run/netns/{bridge}") as space:
            for host in range(2):
                with self._network.inside(host):
                    _switch_off_offloads("wire")
                netns.run("ip", "-n", bridge, "link", "set", f"port{host}", "nomaster")
            netns.enter(space.fileno())
            try:
                for host in range(2):
                    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
                    end.bind((f"port{host}", 0))
                    self._ends.append(end)
            finally:
                netns.enter(outside.fileno())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for end in self._ends:
            end.close()

    def _carry(self) -> None:
        other = dict(zip(self._ends, reversed(self._ends)))
        while not self._stop.is_set():
            for end in select.select(self._ends, [], [], 0.1)[0]:
                packet, address = end.recvfrom(1 << 16)
                if address[2] == socket.PACKET_OUTGOING:
                    continue  # a packet that this process has sent
                with contextlib.suppress(OSError):
                    other[end].send(self._altered(packet))

    def _altered(self, packet: bytes) -> bytes:
        is_tcp = packet[12:14] == b"\x08\x00" and packet[23] == socket.IPPROTO_TCP
        if not is_tcp:
            return packet
        tcp = 14 + (packet[14] & 15) * 4
        end = 14 + struct.unpack_from("!H", packet, 16)[0]
        start = tcp + (packet[tcp + 12] >> 4) * 4
        data = self._change(packet[start:end])
        if data == packet[start:end]:
            return packet
        assert len(data) == end - start
        self.changed += 1
        segment = packet[tcp : tcp + 16] + b"\0\0" + packet[tcp + 18 : start] + data
        pseudo = packet[26:34] + struct.pack("!HH", socket.IPPROTO_TCP, len(segment))
        checksum = ~_sum(pseudo + segment) & 0xFFFF
        segment = segment[:16] + struct.pack("!H", checksum) + segment[18:]
        return packet[:tcp] + segment + packet[end:]

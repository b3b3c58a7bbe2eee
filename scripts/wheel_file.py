# SPDX-License-Identifier: Apache-2.0
"""Reads, changes and writes a wheel. The bytes depend only on the files and the given time."""

from __future__ import annotations

import base64
import hashlib
import pathlib
import time
import zipfile

_EARLIEST = 315_619_200  # zip files cannot hold times before 1980


class Wheel:
    """`files` maps paths to contents; `info` is the metadata folder."""

    def __init__(self, path: pathlib.Path) -> None:
        name, version, *_ = path.stem.split("-")
        self.name, self.version = name, version
        self.info = f"{name}-{version}.dist-info"
        self.build, self.platform = path.stem.rsplit("-", 1)
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            self.files = {entry.filename: archive.read(entry) for entry in entries}
            # Keep permissions: the launcher must stay executable.
            self._modes = {entry.filename: entry.external_attr >> 16 for entry in entries}

    def set_platform(self, platform: str) -> None:
        """Sets the platform tag in the file name and in the metadata."""
        path = f"{self.info}/WHEEL"
        self.files[path] = self.files[path].replace(self.platform.encode(), platform.encode())
        self.platform = platform

    def add_license(self, path: str, text: str) -> None:
        """Adds a text to the licence folder and names it in the metadata."""
        self.files[f"{self.info}/licenses/{path}"] = text.encode()
        head, empty, body = self.files[f"{self.info}/METADATA"].partition(b"\n\n")
        head += f"\nLicense-File: {path}".encode()
        self.files[f"{self.info}/METADATA"] = head + empty + body

    def write(self, folder: pathlib.Path, seconds: int) -> pathlib.Path:
        """Writes the wheel to `folder`, all files with this time (since 1970). Returns its path."""
        record = f"{self.info}/RECORD"
        self.files.pop(record, None)
        # Metadata last, as the format recommends: a reader finds it without reading the other
        # files.
        order = sorted(self.files, key=lambda path: (path.startswith(self.info), path))
        self.files[record] = "".join(
            [*(self._record_line(path) for path in order), f"{record},,\n"]
        ).encode()
        path = folder / f"{self.build}-{self.platform}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name in [*order, record]:
                entry = zipfile.ZipInfo(name, time.gmtime(max(seconds, _EARLIEST))[:6])
                executable = self._modes.get(name, 0) & 0o111
                entry.external_attr = (0o100755 if executable else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, self.files[name])
        return path

    def _record_line(self, path: str) -> str:
        digest = hashlib.sha256(self.files[path]).digest()
        text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return f"{path},sha256={text},{len(self.files[path])}\n"

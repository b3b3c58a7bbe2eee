# SPDX-License-Identifier: Apache-2.0
"""Lines of text that comes in pieces."""

from __future__ import annotations

import re

# A progress bar shows as it moves. A carriage return at the end may be half of an end of line.
_END = re.compile(r"\r\n|\n|\r(?!\Z)")


def split(text: str) -> tuple[list[str], str]:
    """Lines with their ends, and what has not ended."""
    lines = []
    begin = 0
    for end in _END.finditer(text):
        lines.append(text[begin : end.end()])
        begin = end.end()
    return lines, text[begin:]

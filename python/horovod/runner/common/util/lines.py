# SPDX-License-Identifier: Apache-2.0
"""Lines of text that arrives in pieces."""

from __future__ import annotations

import re

# A carriage return ends a line too, so that progress bars move. At the end of a piece it may be the
# first half of "\r\n", so it waits for the next piece.
_END = re.compile(r"\r\n|\n|\r(?!\Z)")


def split(text: str) -> tuple[list[str], str]:
    """The complete lines with their ends, and the rest."""
    lines = []
    begin = 0
    for end in _END.finditer(text):
        lines.append(text[begin : end.end()])
        begin = end.end()
    return lines, text[begin:]

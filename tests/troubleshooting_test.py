# SPDX-License-Identifier: Apache-2.0
"""Every message in docs/troubleshooting.md occurs in the sources."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def sources() -> str:
    """All sources as one text; string literals on adjacent lines are joined."""
    files = [
        path
        for folder in ("core", "launcher", "python")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".cc", ".h", ".py") and not path.stem.endswith("_test")
    ]
    text = "\n".join(path.read_text() for path in files)
    return re.sub(r"""["']\s*\n\s*f?["']""", "", text)


def test_every_message_of_the_page_is_one_that_we_write():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 15
    text = sources()
    for message in messages:
        for part in message.split("…"):
            assert part.strip() in text, message

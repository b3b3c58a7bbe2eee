# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md goes by what users see: every message in it is one that we write."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def sources() -> str:
    """All sources as one text, with strings joined that stand on several lines."""
    files = [
        path
        for folder in ("core", "launcher", "python")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".cc", ".h", ".py") and not path.stem.endswith("_test")
    ]
    text = "\n".join(path.read_text() for path in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_every_message_of_the_page_is_one_that_we_write():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 15
    text = sources()
    for message in messages:
        for part in message.split("…"):
            assert part.strip() in text, message

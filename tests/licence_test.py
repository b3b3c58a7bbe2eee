# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence, on a line of its own that licence scanners can parse."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".c", ".cc", ".cmake", ".h", ".hpp", ".map", ".py", ".pyi", ".sh"}
TAG = re.compile(r"^(#|//|/\*) SPDX-License-Identifier: Apache-2\.0( \*/)?$", re.MULTILINE)


def names_licence(text: str) -> bool:
    return TAG.search("\n".join(text.splitlines()[:3])) is not None


def test_every_source_file_names_its_licence():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    # The frozen header is a copy of an earlier one.
    sources = [
        ROOT / name
        for name in listed
        if pathlib.PurePath(name).suffix in SUFFIXES or name.endswith("CMakeLists.txt")
        if "frozen" not in name
    ]
    assert len(sources) > 500
    texts = {path: path.read_text() for path in sources if path.exists()}
    assert [path for path, text in texts.items() if text and not names_licence(text)] == []


def test_a_tag_with_other_words_on_its_line_does_not_count():
    assert names_licence("#!/bin/bash\n# SPDX-License-Identifier: Apache-2.0\necho\n")
    assert not names_licence("# SPDX-License-Identifier: Apache-2.0 Builds the wheel.\n")
    assert not names_licence("// Builds the wheel.\n")

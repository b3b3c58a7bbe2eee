# SPDX-License-Identifier: Apache-2.0
"""Finds words that a reader has to look up, by the list in scripts/plain_words.txt.

    check_words.py [FILE...]

checks all text files of the repository, or the files that are given: comments, documents and
messages alike. It prints `file:line: "word": write "plain word"` and exits with 1 on a hit.

A name such as keep_guest or GuestList does not match, because it is one word. A quotation passes:
in an inline code span of Markdown, between `<!-- words: off -->` and `<!-- words: on -->`, or on a
line that contains the comment `words: quoted`.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import string
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts" / "plain_words.txt"
# Texts of others, data, and headers that must not change.
SKIPPED = re.compile(
    r"(^|/)LICENSE$|^core/capi/testing/frozen/|(^|/)fuzz_corpus/|(^|/)data/|^scripts/plain_words\.txt$"
)
# Between two words of a phrase: a string literal that continues on the next line, a line break with
# the mark of a comment or of a Markdown quotation, or blanks.
GAP = r"""(?:[ \t]*"[ \t]*\n[ \t]*[a-z]?"[ \t]*|[ \t]*\n[ \t]*(?://+|#+|\*|>)?[ \t]*|[ \t]+)"""
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
OFF = re.compile(r"<!-- words: off -->.*?(?:<!-- words: on -->|\Z)", re.DOTALL)
QUOTED_LINE = re.compile(r"^.*\bwords: quoted\b.*$", re.MULTILINE)
FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
# A code span may continue on the next line, but not in the next paragraph.
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)\1(?!`)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Word:
    """A line of the list: what to find, and what to suggest; "" suggests nothing."""

    pattern: re.Pattern[str]
    plain: str


@dataclasses.dataclass(frozen=True)
class Hit:
    line: int  # from 1
    text: str
    plain: str

    def __str__(self) -> str:
        return f'"{self.text}"' + (f': write "{self.plain}"' if self.plain else "")


def read_words(text: str) -> list[Word]:
    words = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        expression, _, plain = line.partition("\t")
        spaced = expression.strip().replace(" ", GAP)
        # find() checks the start of the word and lowers the text: patterns that begin with \b and
        # ignore case take 4.7 s for the repository, patterns that begin with letters 0.5 s.
        words.append(Word(re.compile(rf"{spaced}(?!\w)"), plain.strip()))
    return words


def _blanked(match: re.Match[str]) -> str:
    """As long as the match and on as many lines, so that places in the text stay the same."""
    return re.sub(r"[^\n]", "\0", match.group())


def without_quotations(text: str, *, is_markdown: bool) -> str:
    if "words: " in text:
        text = QUOTED_LINE.sub(_blanked, OFF.sub(_blanked, text))
    if not is_markdown:
        return text
    # A fenced block is code: its comments count, and its backticks begin no span.
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [CODE_SPAN.sub(_blanked, text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, CODE_SPAN.sub(_blanked, text[end:])])


def find(text: str, words: list[Word], *, is_markdown: bool = False) -> list[Hit]:
    text = without_quotations(text, is_markdown=is_markdown)
    lowered = text.translate(LOWER)
    hits = []
    for word in words:
        for match in word.pattern.finditer(lowered):
            start, end = match.span()
            if re.match(r"\w", text[start - 1 : start]):
                continue
            line = text.count("\n", 0, start) + 1
            hits.append(Hit(line, re.sub(GAP, " ", text[start:end]), word.plain))
    return sorted(hits, key=lambda hit: hit.line)


def files_of_the_repository() -> list[pathlib.Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    # A file that is deleted in the working tree is still listed.
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def check(path: pathlib.Path, words: list[Word]) -> list[Hit]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:  # not a text file
        return []
    return find(text, words, is_markdown=path.suffix == ".md")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    words = read_words(LIST.read_text(encoding="utf-8"))
    count = 0
    for path in [file.resolve() for file in options.files] or files_of_the_repository():
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        if SKIPPED.search(name):
            continue
        for hit in check(path, words):
            print(f"{name}:{hit.line}: {hit}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

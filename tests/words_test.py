# SPDX-License-Identifier: Apache-2.0
"""scripts/check_words.py finds words of its list and passes quotations."""

import pathlib
import subprocess
import sys

import check_words
import pytest

SCRIPT = pathlib.Path(check_words.__file__)
WORDS = check_words.read_words("# note\n\nanew\tagain\nin vain\tno\nguests?\n")  # words: quoted


def found(text: str, **how) -> list[str]:
    return [f"{hit.line}: {hit}" for hit in check_words.find(text, WORDS, **how)]


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("int a;  // Starts anew.\n", ['1: "anew": write "again"']),  # words: quoted
        ("a = 1\n# Anew.\n", ['2: "Anew": write "again"']),  # words: quoted
        ('fail("the job starts anew")\n', ['1: "anew": write "again"']),  # words: quoted
        ("Waits in vain.\n", ['1: "in vain": write "no"']),  # words: quoted
        ("A guest, two guests.\n", ['1: "guest"', '1: "guests"']),  # words: quoted
        ("// Waits in\n  // vain.\n", ['1: "in vain": write "no"']),  # words: quoted
        ('fail("waits in "\n     f"vain")\n', ['1: "in vain": write "no"']),  # words: quoted
        ("Plain words only.\n", []),
        ("guest_list = GuestList(renew_anew=1)\n", []),
    ],
)
def test_a_word_is_found_in_comments_documents_and_messages(text, hits):
    assert found(text) == hits


@pytest.mark.parametrize(
    "text",
    [
        "The message `starts anew` is old.\n",  # words: quoted
        "A span ``with ` anew`` and `one on\ntwo lines, anew`.\n",  # words: quoted
        "<!-- words: off -->\nanew\nguest\n<!-- words: on -->\n",  # words: quoted
        "Instead of anew write again. <!-- words: quoted -->\n",
    ],
)
def test_a_quotation_passes(text):
    assert found(text, is_markdown=True) == []


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("<!-- words: off -->\nanew\n<!-- words: on -->\nanew\n", ["4"]),  # words: quoted
        ("```\nhorovodrun  # anew `\n```\nanew `code`\n", ["2", "4"]),  # words: quoted
        ("A lone ` here.\n\nThen anew, and `code`.\n", ["3"]),  # words: quoted
    ],
)
def test_text_around_a_quotation_does_not_pass(text, hits):
    assert [hit.partition(":")[0] for hit in found(text, is_markdown=True)] == hits


def test_backticks_in_code_are_no_quotation():
    assert found("// Runs `f` anew.\n") == ['1: "anew": write "again"']  # words: quoted


def run(*files: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, SCRIPT, *files], check=False, capture_output=True, text=True, timeout=60
    )


def test_the_program_reports_the_place_and_fails(tmp_path):
    planted = tmp_path / "planted.cc"
    planted.write_text("int a;\n// Starts anew.\n")  # words: quoted
    result = run(planted)
    assert result.returncode == 1
    assert result.stdout == f'{planted}:2: "anew": write "again"\n'  # words: quoted
    planted.write_text("int a;\n// Starts again.\n")
    result = run(planted)
    assert (result.returncode, result.stdout) == (0, "")


def test_files_that_are_no_text_of_ours_are_skipped(tmp_path):
    (tmp_path / "LICENSE").write_text("anew\n")  # words: quoted
    (tmp_path / "binary.bin").write_bytes(b"\xff\xfe anew\n")  # words: quoted
    assert run(*tmp_path.iterdir()).returncode == 0


def test_every_line_of_the_list_is_lower_case_and_has_a_plain_twin():
    lines = check_words.LIST.read_text().splitlines()
    entries = [line for line in lines if line and not line.startswith("#")]
    assert len(entries) > 30
    for line in entries:
        word, tab, plain = line.partition("\t")
        assert tab and plain and word == word.lower(), line

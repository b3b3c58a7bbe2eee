# SPDX-License-Identifier: Apache-2.0
"""Test results as JUnit files: written by the test runners, summed up by run_stages.py."""

import dataclasses
import pathlib
import xml.etree.ElementTree as ET


@dataclasses.dataclass(frozen=True)
class Case:
    """One test: `outcome` is "passed", "failed" or "skipped", `reason` explains the last two."""

    name: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0


def write(path: pathlib.Path, suite: str, cases: list[Case]) -> None:
    root = ET.Element("testsuite", name=suite)
    for case in cases:
        element = ET.SubElement(
            root, "testcase", classname=suite, name=case.name, time=f"{case.seconds:.3f}"
        )
        if case.outcome != "passed":
            tag = "failure" if case.outcome == "failed" else "skipped"
            ET.SubElement(element, tag, message=printable(case.reason))
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path)


def read(path: pathlib.Path) -> list[Case]:
    """The cases of a file written by this module, by GoogleTest or by pytest."""
    cases = []
    for element in ET.parse(path).iter("testcase"):
        name = f"{element.get('classname')}.{element.get('name')}"
        outcome, reason = "passed", ""
        if element.get("status") == "notrun":  # GoogleTest's DISABLED_ tests
            outcome, reason = "skipped", "disabled"
        for child in element:
            if child.tag in ("failure", "error"):
                outcome, reason = "failed", child.get("message") or child.text or ""
                break
            if child.tag == "skipped":
                outcome, reason = "skipped", child.get("message") or child.text or "no reason given"
        cases.append(Case(name, outcome, reason.strip(), float(element.get("time") or 0)))
    return cases


def read_folder(folder: pathlib.Path) -> list[Case]:
    return [case for path in sorted(folder.rglob("*.xml")) for case in read(path)]


def printable(text: str) -> str:
    """Removes control characters that XML does not allow."""
    return "".join(c for c in text if c in "\n\t" or c >= " ")

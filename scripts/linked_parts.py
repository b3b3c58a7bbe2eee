# SPDX-License-Identifier: Apache-2.0
"""Finds the third-party code in a build: versions, licences and bill of materials.

The list is not maintained by hand. The build records which headers it read and which libraries it
linked, and dpkg reports the package of each file. A package whose licence has not been reviewed yet
stops the build.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import re
import subprocess
import sysconfig
import uuid

# By source package of Debian: the project's own name and, as SPDX has it, its licence.
PROJECTS = {
    "eigen3": ("Eigen", "MPL-2.0"),
    "fmtlib": ("fmt", "MIT"),
    "gcc": ("libstdc++ and libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "highway": ("Highway", "Apache-2.0"),
    "openssl": ("OpenSSL", "Apache-2.0"),
    "yaml-cpp": ("yaml-cpp", "MIT"),
}
# Interfaces of libraries that every system has. Of the C library only the start-up code is linked
# in.
INTERFACES = {"glibc", "linux", "python3"}
COMMON_LICENSES = pathlib.Path("/usr/share/common-licenses")


@dataclasses.dataclass(frozen=True)
class Part:
    """A third-party project whose code is in our files."""

    source: str  # source package of Debian
    version: str  # of that package, which identifies the security fixes
    name: str
    license: str
    copyright: str  # Debian's file with the licences of all its files


def _run(*command: str, check: bool = True) -> str:
    return subprocess.run(command, check=check, capture_output=True, text=True).stdout


def _files_of(build: pathlib.Path) -> set[str]:
    """Headers read and libraries linked by the build, outside of the project."""
    headers = re.findall(r"^ +(/.+)$", _run("ninja", "-C", str(build), "-t", "deps"), re.MULTILINE)
    libraries = re.findall(
        r"(?<=\s)/\S+\.(?:a|so[.\d]*)(?=\s)", (build / "build.ninja").read_text()
    )
    own = (str(build.resolve()), str(pathlib.Path(__file__).resolve().parent.parent))
    python = sysconfig.get_path("include")
    return {file for file in {*headers, *libraries} if not file.startswith((*own, python))}


def _packages_of(files: set[str]) -> set[str]:
    found = _run("dpkg-query", "--search", *sorted(files), check=False)
    owners = dict(reversed(line.split(": ", 1)) for line in found.splitlines())
    unknown = sorted(file for file in files if file not in owners)
    if unknown:
        raise SystemExit(f"no Debian package has {unknown[0]}: what is its licence? See {__file__}")
    return {owner.split(",")[0] for owner in owners.values()}


def linked_parts(build: pathlib.Path) -> list[Part]:
    """The third-party parts of the build in folder `build`, sorted by name."""
    parts = {}
    form = "${source:Package}\t${source:Version}\n"
    for package in sorted(_packages_of(_files_of(build))):
        source, version = _run("dpkg-query", "--show", f"--showformat={form}", package).split()
        # gcc-12, python3.11: any version of them
        known = re.sub(r"^(gcc|python3)[-.][\d.]+$", r"\1", source)
        if known in INTERFACES:
            continue
        if known not in PROJECTS:
            raise SystemExit(f"the build uses {package}: what is its licence? See {__file__}")
        text = pathlib.Path("/usr/share/doc", package.split(":")[0], "copyright").read_text()
        parts[source] = Part(source, version, *PROJECTS[known], text)
    return sorted(parts.values(), key=lambda part: part.name)


def license_files(parts: list[Part]) -> dict[str, str]:
    """Licence texts by file name: one per part, and the texts that they refer to."""
    texts = {f"{part.source}/copyright": part.copyright for part in parts}
    for text in list(texts.values()):
        for name in re.findall(rf"{COMMON_LICENSES}/([\w.+-]*\w)", text):
            if (COMMON_LICENSES / name).is_file():
                texts[f"common-licenses/{name}"] = (COMMON_LICENSES / name).read_text()
    return texts


def bill_of_materials(version: str, parts: list[Part], seconds: int) -> str:
    """CycloneDX as JSON; the output depends on the arguments only."""
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    def component(kind: str, namespace: str, source: str, version: str, **about: str) -> Component:
        purl = PackageURL(kind, namespace, source, version)
        return Component(
            type=ComponentType.LIBRARY,
            name=about["name"],
            version=version,
            bom_ref=purl.to_string(),
            purl=purl,
            licenses=[LicenseExpression(about["license"])],
        )

    own = component("pypi", "", "horovod", version, name="horovod", license="Apache-2.0")
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"horovod {version} {seconds} {parts}"),
        metadata=BomMetaData(
            component=own,
            timestamp=datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc),
        ),
        components=[
            component(
                *("deb", "debian", part.source, part.version), name=part.name, license=part.license
            )
            for part in parts
        ],
    )
    bom.register_dependency(own, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2)

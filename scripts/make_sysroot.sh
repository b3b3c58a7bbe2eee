#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make_sysroot.sh FOLDER [RELEASE [ARCHITECTURE PACKAGE…]]
# Unpacks packages of a Debian release into FOLDER, without installing them, to compile and link
# against. The default is the C library of Debian 11 (glibc 2.31): make wheel SYSROOT=FOLDER then
# makes a wheel for systems of that age. The packages are from this machine's mirror; apt checks
# their signatures.
set -euo pipefail
folder=$1
release=${2:-bullseye}
architecture=${3:-$(dpkg --print-architecture)}
packages=("${@:4}")
if [ "${#packages[@]}" = 0 ]; then
  packages=(libc6 libc6-dev libgcc-s1)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$folder"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' |
  head -n 1)
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] $mirror $release main" > "$work/sources.list"
options=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=-
  -o "Dir::State::Lists=$work/lists" -o Dir::State::Status=/dev/null -o "Dir::Cache=$work/cache"
  -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Sandbox::User=root
  -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture")
apt-get "${options[@]}" update
(cd "$work" && apt-get "${options[@]}" download "${packages[@]}")
for package in "$work"/*.deb; do
  dpkg-deb --extract "$package" "$folder"
done
# Make absolute links relative: they would point to the libraries of this machine.
find "$folder" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  ln -sfn --relative "$folder$(readlink "$link")" "$link"
done

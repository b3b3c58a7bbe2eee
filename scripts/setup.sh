#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing Debian packages and makes .venv. Safe to run again: if nothing is missing, it
# takes a fraction of a second and changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

is_there() {
  # A Python that is not from Debian has its own venv module.
  if [ "$1" = python3-venv ]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null
  else
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
  fi
}

missing=()
for package in $(grep -v '^#' scripts/debian-packages.txt); do
  is_there "$package" || missing+=("$package")
done

if [ "${#missing[@]}" -gt 0 ]; then
  install="apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    $install
  else
    echo "Debian packages are missing. Run this, then try again:"
    echo "  sudo $install"
    exit 1
  fi >&2
fi

scripts/make_venv.sh .venv scripts/requirements.txt

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make_venv.sh FOLDER REQUIREMENTS [PYTHON]
# Makes a Python environment; makes it again when its requirements have changed.
set -euo pipefail
folder=$1
wanted=$2
python=${3:-python3}

# The copy in the environment records the requirements that it was made from.
if ! cmp -s "$wanted" "$folder/requirements.txt"; then
  echo "making $folder from $wanted (frameworks are gigabytes: minutes)"
  "$python" -m venv --clear "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$folder/requirements.txt"
fi

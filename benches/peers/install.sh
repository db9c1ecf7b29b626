#!/bin/sh
# Makes a virtual environment with the tools that peers.py compares, in the folder that is given. A tool that cannot be
# installed is left out, and peers.py says so. PyTorch of the package index brings CUDA's libraries with it (5 GB); set
# PIP_INDEX_URL or PIP_EXTRA_INDEX_URL to an index with its wheels for processors where there is one.
#
#     install.sh FOLDER
set -eu
[ $# = 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(dirname "$(realpath "$0")")
python3 -m venv "$1"
for package in numpy drjit jax torch taichi warp-lang; do
    "$1/bin/pip" install --quiet "$package" || echo "not installed: $package" >&2
done
# This has slangc in the folder slangtorch/bin.
"$1/bin/pip" install --quiet --no-deps slangtorch || echo "not installed: slangtorch" >&2
"$1/bin/pip" install --quiet "$here/../../python" || echo "not installed: pullback" >&2

#!/bin/sh
# Solves for the surface, and draws it beside the pattern of the Jacobian of a small one.
set -e
here=$(dirname "$0")
mkdir -p target/fit
(echo '{"u": [0'; yes , 0.1 | head -n 35; echo ']}') > target/fit/surface.json
pullback jacobian "$here/surface.slang" residuals -D N=6 --at @target/fit/surface.json --picture target/fit/pattern.png
python3 "$here/solve.py" target/fit/pattern.png target/fit/surface.png

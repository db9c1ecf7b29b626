#!/bin/sh
# Fits the arm, and draws it before and after. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/arm.slang" "$@"
pullback run "$here/draw.slang" --groups 60,42 --bind postures=@target/fit/arm-render.npy \
    --bind image=zeros:420,960,3 --out image=@target/fit/arm.png

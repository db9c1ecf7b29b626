#!/bin/sh
# Learns to read digits, and draws what was learned. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/digits.slang" "$@"
pullback run "$here/draw.slang" --groups 119,29 --bind net=@target/fit/digits-net.npy \
    --bind rows=@"$here/digits.csv.gz" --bind answers=@target/fit/digits-render.npy \
    --bind image=zeros:348,952,3 --out image=@target/fit/digits.png

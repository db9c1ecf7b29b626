#!/bin/sh
# Draws how the errors of the estimates fall with the number of paths.
set -e
here=$(dirname "$0")
mkdir -p target/fit
pullback run "$here/draw.slang" --entry measure --groups 2,64 --bind errors=zeros:1920 \
    --out errors=@target/fit/roulette-errors.npy
pullback run "$here/draw.slang" --entry draw --groups 30,15 --bind errors=@target/fit/roulette-errors.npy \
    --bind image=zeros:240,480,3 --out image=@target/fit/roulette.png >/dev/null

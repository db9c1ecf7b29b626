#!/bin/sh
# Solves the equation, and draws the solution. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/poisson.slang" "$@"
pullback run "$here/draw.slang" --groups 84,40 --bind net=@target/fit/poisson-net.npy \
    --bind image=zeros:400,840,3 --out image=@target/fit/poisson.png

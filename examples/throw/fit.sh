#!/bin/sh
# Fits the throw, and draws it before and after. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/throw.slang" "$@"
pullback run "$here/draw.slang" --groups 60,40 --bind places=@target/fit/throw-render.npy \
    --bind image=zeros:400,960,3 --out image=@target/fit/throw.png

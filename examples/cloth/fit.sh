#!/bin/sh
# Fits the throw, and draws it before and after. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/cloth.slang" "$@"
pullback run "$here/draw.slang" --groups 60,36 --bind places=@target/fit/cloth-render.npy \
    --bind image=zeros:360,960,3 --out image=@target/fit/cloth.png

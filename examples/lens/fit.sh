#!/bin/sh
# Designs the lens, and draws it before and after. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/lens.slang" "$@"
pullback run "$here/draw.slang" --groups 60,60 --bind fitted=@target/fit/lens-lens.npy \
    --bind image=zeros:600,960,3 --out image=@target/fit/lens.png

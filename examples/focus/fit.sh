#!/bin/sh
# Designs the lens, and draws it before and after. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/focus.slang" "$@"
pullback run "$here/draw.slang" --groups 60,54 --bind fitted=@target/fit/focus-lens.npy \
    --bind focus=@target/fit/focus-render.npy \
    --bind image=zeros:540,960,3 --out image=@target/fit/focus.png

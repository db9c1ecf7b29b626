#!/bin/sh
# Compresses the photograph, and draws a part of it with its blocks. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/texture.slang" "$@"
pullback run "$here/draw.slang" --groups 97,48 --bind picture=@target/fit/texture.png \
    --bind shapes=@target/fit/texture-shape.npy --bind modes=@target/fit/texture-mode.npy \
    --bind image=zeros:384,776,3 --out image=@target/fit/texture-blocks.png

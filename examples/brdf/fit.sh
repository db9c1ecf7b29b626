#!/bin/sh
# Fits the material, and draws it. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/brdf.slang" --quiet "$@"
pullback run "$here/view.slang" --groups 48,16 --bind fitted=@target/fit/brdf-material.npy \
    --bind 'image={"size":[768,256]}' --out image=@target/fit/brdf.png

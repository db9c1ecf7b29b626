#!/bin/sh
# Finds the shape, and draws it. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/sdf.slang" --quiet "$@"
pullback run "$here/scan.slang" --entry measuredPlaces --groups 800 --bind places=zeros:25600 \
    --out places=@target/fit/sdf-places.npy
pullback run "$here/view.slang" --groups 48,16 --bind found=@target/fit/sdf-field.npy \
    --bind places=@target/fit/sdf-places.npy --bind 'image={"size":[768,256]}' --out image=@target/fit/sdf.png

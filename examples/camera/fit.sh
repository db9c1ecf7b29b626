#!/bin/sh
# Adjusts cameras and points, and draws them before and after. Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
pullback fit "$here/camera.slang" "$@"
pullback run "$here/draw.slang" --groups 60,30 \
    --bind start_cameras=@"$here/start-cameras.npy" --bind start_points=@"$here/start-points.npy" \
    --bind cameras=@target/fit/camera-cameras.npy --bind points=@target/fit/camera-points.npy \
    --bind image=zeros:300,960,3 --out image=@target/fit/camera.png

#!/bin/sh
# Draws the picture, fits the shapes to it with and without the derivatives of edges, and draws both fits and their losses.
# Options are those of `pullback fit`.
set -e
here=$(dirname "$0")
mkdir -p target/fit/samples
pullback run "$here/draw.slang" --entry paint --groups 16,16 --bind image=zeros:128,128,3 \
    --out image=@target/fit/shapes-goal.png
pullback fit "$here/shapes.slang" --items image:target/fit/shapes-goal.png --log target/fit/shapes.csv "$@"
pullback fit "$here/shapes.slang" --items image:target/fit/shapes-goal.png --log target/fit/samples/shapes.csv \
    -D EDGES=0 --out target/fit/samples "$@"
pullback run "$here/draw.slang" --entry draw --groups 60,20 --bind goal=@target/fit/shapes-goal.png \
    --bind ours=@target/fit/shapes.png --bind theirs=@target/fit/samples/shapes.png \
    --bind losses=@target/fit/shapes.csv --bind others=@target/fit/samples/shapes.csv \
    --bind image=zeros:320,960,3 --out image=@target/fit/shapes-fit.png

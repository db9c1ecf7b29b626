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
for log in target/fit/shapes target/fit/samples/shapes; do cut -d, -f1-3 $log.csv >$log-losses.csv; done
pullback run "$here/draw.slang" --entry draw --groups 60,15 --bind picture=@target/fit/shapes-goal.png \
    --bind ours=@target/fit/shapes.png --bind theirs=@target/fit/samples/shapes.png \
    --bind losses=@target/fit/shapes-losses.csv --bind others=@target/fit/samples/shapes-losses.csv \
    --bind image=zeros:240,960,3 --out image=@target/fit/shapes-fit.png

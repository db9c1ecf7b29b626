#!/bin/sh
# Makes the data, finds the hyperparameters, and draws the regression and the search.
set -e
here=$(dirname "$0")
mkdir -p target/fit
pullback run "$here/ridge.slang" --entry measure --bind data=zeros:80 --out data=@target/fit/ridge-data.npy
pullback run "$here/ridge.slang" --entry search --bind data=@target/fit/ridge-data.npy --bind path=zeros:12 \
    --bind weights=zeros:24 --out path=@target/fit/ridge-path.npy --out weights=@target/fit/ridge-weights.npy
pullback run "$here/draw.slang" --entry draw --groups 92,45 --bind data=@target/fit/ridge-data.npy \
    --bind path=@target/fit/ridge-path.npy --bind weights=@target/fit/ridge-weights.npy \
    --bind image=zeros:360,736,3 --out image=@target/fit/ridge.png

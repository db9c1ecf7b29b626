#!/bin/sh
# Differentiates ten million steps, and draws the derivatives. It may be stopped at any time: the same command goes on.
set -e
here=$(dirname "$0")
mkdir -p target/fit
pullback run "$here/start.slang" >target/fit/wave-start.json
pullback recurrence "$here/wave.slang" advance --loss energy --steps ${STEPS:-10000000} --segment 10000 \
    --at @target/fit/wave-start.json --backend llvm --folder target/recurrence/wave --out target/fit/wave.npy
pullback run "$here/draw.slang" --groups 60,20 --bind gradient=@target/fit/wave.npy \
    --bind image=zeros:320,960,3 --out image=@target/fit/wave.png

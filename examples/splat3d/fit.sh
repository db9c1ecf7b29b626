#!/bin/sh
# Fits Gaussians to the pictures in rounds, between which their number grows, and then draws what cameras see whose pictures
# were not fitted.
#
#     sh examples/splat3d/fit.sh FIRST NEW ROUNDS STEPS [options of `pullback fit`]
#
# begins with FIRST Gaussians, makes ROUNDS rounds of STEPS steps, and adds NEW Gaussians after each but the last.
set -e
here=$(dirname "$0")
count=$1 new=$2 rounds=$3 steps=$4
shift 4
out=target/fit
mkdir -p $out
views=$(for k in 00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15; do
    echo "--bind views[${k#0}]=@$here/view-$k.png"
done)
grow() {
    pullback run "$here/grow.slang" -D COUNT=$count -D NEW=$new "$@" > $out/round.txt
}
sort() {
    grow --entry sort --groups $count,19 --bind splats=@$out/splats.npy --bind order=zeros:$((count * 19)) \
        --out order=@$out/order.npy
}
fit() {
    pullback fit "$here/splat3d.slang" -D COUNT=$count --param splats=@$out/splats.npy --bind order=@$out/order.npy \
        --quiet "$@"
}

grow --entry begin --groups $count --bind grown=zeros:$count --out grown=@$out/splats.npy
while [ $rounds -gt 1 ]; do
    sort
    fit --steps $steps "$@" > $out/round.txt
    echo "$count Gaussians: $(head -1 $out/round.txt | cut -d, -f1-3)" >&2
    cp $out/splat3d-splats.npy $out/splats.npy
    cp $out/splats.npy $out/splats-$count.npy
    grow --entry score --groups 16,16,16 --bind splats=@$out/splats.npy --bind order=@$out/order.npy $views \
        --bind scores=zeros:$count --out scores=@$out/scores.npy
    grow --entry grow --groups $count --bind splats=@$out/splats.npy --bind scores=@$out/scores.npy \
        --bind grown=zeros:$((count + new)) --out grown=@$out/grown.npy
    cp $out/grown.npy $out/splats.npy
    count=$((count + new))
    rounds=$((rounds - 1))
done
sort
fit --steps $steps --schedule exponential:0.1 "$@"
# The cameras that were not fitted: a step of length zero.
cp $out/splat3d-splats.npy $out/splats.npy
cp $out/splats.npy $out/splats-$count.npy
sort
fit --items "images:$here/others.csv" --rate 0 --steps 1 --out $out/others "$@"

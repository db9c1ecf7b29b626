#!/usr/bin/env bash
# Runs cargo for WebAssembly, where rustup has no standard library for it: in a folder with the Rust of Debian's next release,
# which has one. The folder is made on the first call (two minutes, 1.3 GB) and kept; root is needed, for chroot.
#
#     scripts/wasm-cargo.sh check -p pullback-driver -p pullback-ide --features pullback-driver/wasm
#
# The command `tools` only makes what is needed. WASM_TARGET is the target [default: wasm32-unknown-unknown];
# wasm32-wasip1 has files, a clock and arguments, by its host.
# PULLBACK_WASM_ROOT is the folder [default: target/wasm-root]. Packages come from CARGO_HOME, where they are put first if they
# are missing. What is built is in target/wasm.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$(pwd)
target=${WASM_TARGET:-wasm32-unknown-unknown}
if cargo --list >/dev/null 2>&1 && [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
    [ "$1" != tools ] || exit 0
    exec cargo "$1" --target "$target" --target-dir target/wasm "${@:2}"
fi
root=${PULLBACK_WASM_ROOT:-$here/target/wasm-root}
home=${CARGO_HOME:-$HOME/.cargo}
if [ ! -x "$root/usr/bin/cargo" ]; then
    command -v debootstrap >/dev/null || { apt-get update -q && apt-get install -y -q debootstrap; }
    # Under another name until it is whole.
    rm -rf "$root.new"
    mkdir -p "$root.new"
    debootstrap --variant=minbase --include=rustc,cargo,libstd-rust-dev-wasm32,lld,gcc,libc6-dev \
        forky "$root.new" "" /usr/share/debootstrap/scripts/sid > "$root.log" \
        || { tail "$root.log"; exit 1; }
    rm -rf "$root"
    mv "$root.new" "$root"
fi
[ "$1" != tools ] || exit 0
cargo fetch --quiet --locked
mkdir -p target/wasm
# In a namespace of its own, so that no mount outlives the call.
exec unshare --mount bash -c '
    set -euo pipefail
    root=$1 here=$2 home=$3 target=$4
    shift 4
    mkdir -p "$root$here" "$root/cargo-home"
    mount --bind "$here" "$root$here"
    mount --bind "$home" "$root/cargo-home"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    exec chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root CARGO_HOME=/cargo-home CARGO_NET_OFFLINE=true CARGO_TERM_COLOR=never \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=/usr/bin/wasm-ld \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-C linker-flavor=wasm-ld" \
        CARGO_TARGET_WASM32_WASIP1_LINKER=/usr/bin/wasm-ld CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="-C linker-flavor=wasm-ld" \
        bash -c "cd \"\$0\" && exec cargo \"\$2\" --target \"\$1\" --target-dir target/wasm \"\${@:3}\"" "$here" "$target" "$@"
' sh "$root" "$here" "$home" "$target" "$@"

#!/usr/bin/env bash
# Everything that needs a device, unattended.
#
#   scripts/on-gpu.sh pack [ARCHIVE]   builds what is needed, and packs it (target/on-gpu.tar.xz)
#   scripts/on-gpu.sh [ARCHIVE]        unpacks it on the machine with the device, and runs it; status 1 if something failed
#
# That machine needs a driver and nothing else: neither Rust nor LLVM nor the network. With a Python 3.10 or later that has
# NumPy and pytest, the package's tests of devices run, too, and those of CUDA tensors where there is PyTorch. What could
# not be run is said at the end. Reports are written to the folder of `OUT` in the environment, else to `on-gpu`.
# To try the script itself without such a device: `PROFILE=dev` packs builds of another profile of cargo, quickly; and where
# only a software device is, `PULLBACK_THREADS=1024 PULLBACK_PROGRAMS="sphere splat ode"` runs few kernels with few threads,
# and `PATIENCE=5` waits so many times as long for each step.
set -euo pipefail
made=''
trap '[ -z "$made" ] || rm -rf "$made"' EXIT

pack() {
    cd "$(dirname "$0")/.."
    local archive=${1:-target/on-gpu.tar.xz} target=${CARGO_TARGET_DIR:-$PWD/target} llvm
    local profile=${PROFILE:-release}
    local built=$target/${profile/#dev/debug}
    llvm=$(ldconfig -p | sed -n 's/.*libLLVM\.so\.19\.1.* => //p' | head -n 1)
    [ -n "$llvm" ] || { echo "LLVM 19 (libLLVM.so.19.1) is needed, which is packed" >&2; exit 1; }
    mkdir -p "$(dirname "$archive")"
    archive=$(realpath "$archive")
    cargo build --profile "$profile" -p pullback-cli --features cuda,wgpu
    local test
    test=$(cargo test --profile "$profile" -p pullback-tests --features llvm,wgpu,cuda --test gpu --no-run --message-format json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    cargo build --profile "$profile" -p pullback-python --features pyo3/abi3-py310,wgpu,cuda
    made=$(mktemp -d)
    mkdir -p "$made/bin" "$made/lib" "$made/python" "$made/tests" "$made/benches"
    cp "$built/pullback" "$made/bin/"
    cp "$test" "$made/bin/gpu"
    strip "$made/bin/"*
    # With the libraries that it needs and that a machine may lack.
    for library in "$llvm" $(ldd "$llvm" | sed -n 's/.* => \(.*\/lib\(edit\|z3\|xml2\|tinfo\|bsd\|md\|ffi\|icuuc\|icudata\|zstd\|lzma\)\.so[^ ]*\).*/\1/p'); do
        cp -L "$library" "$made/lib/"
    done
    cp -r python/pullback python/tests "$made/python/"
    find "$made/python" -name __pycache__ -prune -exec rm -rf {} +
    cp "$built/lib_core.so" "$made/python/pullback/_core.abi3.so"
    strip "$made/python/pullback/_core.abi3.so"
    cp -r tests/run "$made/tests/"
    mkdir -p "$made/tests/ir"
    cp -r tests/ir/dispatch "$made/tests/ir/"
    cp -r examples "$made/"
    cp -r benches/peers "$made/benches/"
    cp scripts/on-gpu-kernels.py "$made/"
    # Builds of other profiles are large, and are not sent anywhere.
    XZ_OPT="-T0 $([ "$profile" = release ] && echo -9 || echo -0)" tar -C "$made" -cJf "$archive" .
    ls -l "$archive"
}

# Runs a step with its output in a report.
step() {
    local name=$1
    shift
    echo "== $name"
    if "$@" >"$out/$name.txt" 2>&1; then
        echo "passed: $name" >>"$out/summary.txt"
    else
        echo "FAILED: $name (status $?)" >>"$out/summary.txt"
    fi
    tail -n 25 "$out/$name.txt"
}

run() {
    local archive out patience=${PATIENCE:-1}
    archive=$(realpath "${1:-$(dirname "$0")/../target/on-gpu.tar.xz}")
    out=${OUT:-$PWD/on-gpu}
    mkdir -p "$out"
    out=$(realpath "$out")
    : >"$out/summary.txt"
    made=$(mktemp -d)
    tar -C "$made" -xJf "$archive"
    cd "$made"
    export PULLBACK_LIBLLVM=$made/lib/libLLVM.so.19.1 LD_LIBRARY_PATH=$made/lib:${LD_LIBRARY_PATH:-} PULLBACK_TESTS=$made/tests
    step devices bin/pullback devices
    # Steps pass without a device that they need, so what is missing is said here.
    sed -n 's/^\(wgpu\|cuda\) is missing: /NOT RUN: all that needs `--backend \1`: /p' "$out/devices.txt" >>"$out/summary.txt"
    # Each program of tests/run on wgpu's first device and on NVIDIA's, beside the interpreter; and fits.
    step programs timeout $((400 * patience)) bin/gpu --nocapture --test-threads 1 --skip matrix_units
    # Products of cooperative matrices with `--matrix-units` beside those without, within a tolerance.
    step matrix-units timeout $((100 * patience)) bin/gpu --nocapture matrix_units
    grep '^NOT RUN' "$out/matrix-units.txt" >>"$out/summary.txt" || true
    local python
    python=$(command -v python3 || true)
    if [ -n "$python" ] && "$python" -c 'import numpy, pytest' 2>/dev/null; then
        step python timeout $((200 * patience)) env PYTHONPATH="$made/python" "$python" -m pytest -q -rs -p no:cacheprovider python/tests/test_devices.py
        step kernels timeout $((300 * patience)) env PYTHONPATH="$made/python" "$python" on-gpu-kernels.py benches/peers
    else
        echo "NOT RUN: the tests of the Python package, which need Python with NumPy and pytest" >>"$out/summary.txt"
    fi
    echo "== summary"
    cat "$out/summary.txt"
    ! grep -q '^FAILED' "$out/summary.txt"
}

case ${1:-} in
    pack) pack "${2:-}" ;;
    *) run "$@" ;;
esac

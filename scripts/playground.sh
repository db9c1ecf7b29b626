#!/usr/bin/env bash
# Builds the playground into a folder [default: target/site/playground], and with `--test` tries it in headless Chromium.
#
#     scripts/playground.sh [--test] [FOLDER]
#     scripts/playground.sh --module PROFILE      builds the compiler's module only
#
# It needs Node.js 20 with npm, and for the tests Chromium; what scripts/wasm-cargo.sh needs, it fetches itself. PROFILE is
# cargo's profile [default: playground].
set -euo pipefail
cd "$(dirname "$0")/.."
test=
if [ "${1:-}" = --test ]; then
    test=yes
    shift
fi
profile=${PROFILE:-playground}
if [ "${1:-}" = --module ]; then
    profile=$2
fi
WASM_TARGET=wasm32-wasip1 scripts/wasm-cargo.sh build --quiet -p pullback-playground --profile "$profile"
if [ "${1:-}" = --module ]; then
    exit
fi
folder=${1:-target/site/playground}
module=$(pwd)/target/wasm/wasm32-wasip1/${profile/#dev/debug}/pullback_playground.wasm
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd playground/page
npm ci --silent --no-audit --no-fund
npm run --silent check
npm run --silent build -- "$folder" "$module"
if [ -n "$test" ]; then
    npm run --silent test -- "$folder"
fi

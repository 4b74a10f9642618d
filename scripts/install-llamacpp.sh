#!/usr/bin/env bash
# Build llama.cpp's server and its Python binding for the tests in tests/other_servers.
#
# usage: VENV=.venv CLIENTS=.clients scripts/install-llamacpp.sh
#        VENV=.venv CLIENTS=runs NATIVE=1 scripts/install-llamacpp.sh
#
# The source distribution of llama-cpp-python contains llama.cpp. Program and libraries are built
# from it once (some ten minutes on two cores, at the lowest priority) and put, with the Python
# packages `llama_cpp` and `gguf`, into CLIENTS/llamacpp. Exits with 1 where that is not possible;
# the tests then say what they lack. With NATIVE=1 it is built for speed and for this processor only, as
# llama.cpp's own instructions build it: benchmarks/headline compares with that build.
set -euo pipefail

: "${VENV:?}" "${CLIENTS:?}"

for program in cmake g++ make; do
    command -v "$program" >/dev/null || {
        echo "install-llamacpp: $program is missing (Debian: apt-get install cmake g++ make)." \
            "Without it the tests in tests/other_servers are skipped." >&2
        exit 1
    }
done
folder=$PWD/$CLIENTS/llamacpp
build=$folder/build
export PIP_DISABLE_PIP_VERSION_CHECK=1

echo "Building llama.cpp in $CLIENTS/llamacpp" >&2
rm -rf "$folder" && mkdir -p "$build"
source_pin='/^llama-cpp-python==/,/^ *--hash/'
sed -n "${source_pin}p" requirements/llamacpp.lock >"$build/source.lock"
sed "${source_pin}d" requirements/llamacpp.lock >"$build/packages.lock"
"$VENV/bin/python" -m pip download --quiet --no-deps --no-binary llama-cpp-python \
    --require-hashes --dest "$build" -r "$build/source.lock"
"$VENV/bin/python" -m pip install --quiet --no-deps --no-compile --require-hashes \
    --target "$folder" -r "$build/packages.lock"
tar -xzf "$build"/llama_cpp_python-*.tar.gz -C "$build"
source=$(echo "$build"/llama_cpp_python-*/)
# The tests need no speed; two thirds of the time of an optimized build is spent on optimizing.
optimization=(-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_C_FLAGS_RELEASE=-O2 -DGGML_NATIVE=OFF)
[[ -z ${NATIVE:-} ]] || optimization=(-DGGML_NATIVE=ON)
nice -n 19 cmake -S "$source/vendor/llama.cpp" -B "$build/out" -DCMAKE_BUILD_TYPE=Release \
    "${optimization[@]}" -DBUILD_SHARED_LIBS=ON \
    "-DCMAKE_INSTALL_RPATH=\$ORIGIN" -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    -DGGML_OPENMP=OFF -DGGML_CCACHE=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF >"$build/log" 2>&1 &&
    nice -n 19 cmake --build "$build/out" --target llama-server -j 2 >>"$build/log" 2>&1 || {
    tail -5 "$build/log" >&2
    exit 1
}
mv "$source/llama_cpp" "$source/vendor/llama.cpp/gguf-py/gguf" "$folder"
mkdir -p "$folder/llama_cpp/lib"
mv "$build"/out/bin/*.so* "$build/out/bin/llama-server" "$folder/llama_cpp/lib"
"$folder/llama_cpp/lib/llama-server" --version >&2
rm -rf "$build"

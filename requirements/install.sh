#!/bin/sh
# Install the locked packages into a virtual environment, with a line of progress every few seconds.
# Usage: install.sh VENV LOCK
# An interrupted installation is taken up again by the next call; pip keeps what is already there.
set -eu
venv=$1
lock=$2

find_python() {
    for candidate in python3.11 python3 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "error: no Python 3.11 on the PATH (tried python3.11, python3, python)" >&2
    exit 2
}

wanted=$(grep -c '==' "$lock")
started=$(date +%s)
elapsed() { echo $(($(date +%s) - started)); }

if [ ! -x "$venv/bin/python" ]; then
    python=$(find_python)
    "$python" -m venv "$venv" || {
        echo "error: $python cannot make a virtual environment (Debian: install python3-venv)" >&2
        exit 2
    }
fi

log=$venv/install.log
echo "installing $wanted packages into $venv (a few minutes, once; log: $log)"
"$venv/bin/python" -m pip install --no-deps --no-compile --disable-pip-version-check \
    --progress-bar off -r "$lock" >"$log" 2>&1 &
pip=$!
trap 'kill "$pip" 2>/dev/null; exit 130' INT TERM
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
ticks=0
while kill -0 "$pip" 2>/dev/null; do
    sleep 1
    ticks=$((ticks + 1))
    [ $((ticks % 10)) -eq 0 ] || continue
    if grep -q '^Installing collected packages' "$log"; then
        present=$(find "$packages" -maxdepth 1 -name '*.dist-info' | wc -l)
        echo "$(printf '%4d' "$(elapsed)") s  installed $((present - 1)) of $wanted" # less pip
    else
        fetched=$(grep -Ec '^(Collecting|Requirement already satisfied)' "$log" || true)
        echo "$(printf '%4d' "$(elapsed)") s  fetched $fetched of $wanted"
    fi
done
if ! wait "$pip"; then
    tail -n 20 "$log" >&2
    echo "error: pip failed; the whole log is in $log" >&2
    exit 1
fi

# Byte-compiling here, on every core, takes half of pip's time for it and spares the first run.
echo "$(printf '%4d' "$(elapsed)") s  compiling"
"$venv/bin/python" -m compileall -q -j 0 "$packages" >>"$log" 2>&1 &
compiler=$!
trap 'kill "$compiler" 2>/dev/null; exit 130' INT TERM
ticks=0
while kill -0 "$compiler" 2>/dev/null; do
    sleep 1
    ticks=$((ticks + 1))
    [ $((ticks % 10)) -eq 0 ] || continue
    sources=$(find "$packages" -name '*.py' | wc -l)
    compiled=$(find "$packages" -name '*.cpython-311.pyc' | wc -l)
    echo "$(printf '%4d' "$(elapsed)") s  compiled $compiled of $sources"
done
wait "$compiler" || true # some packages ship samples that no Python compiles

if ! "$venv/bin/python" -c 'import torch' >>"$log" 2>&1; then
    tail -n 3 "$log" >&2
    echo "error: torch does not import; without a GPU pip must be offered its CPU build" \
        "(PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS), then remove $venv and run make install again" >&2
    exit 1
fi
echo "installed after $(elapsed) s"

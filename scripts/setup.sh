#!/usr/bin/env bash
# Makes .venv from requirements.lock, or with CUDA from requirements-gpu.lock, once.
#
#   stamp matches? ── yes ──► our own files changed? ── no ──► done, in milliseconds
#        │ no                          └─ yes ──► bytecode
#        ▼
#   g++ there? ─► uv ─► Python 3.10 ─► .venv ─► locked packages ─► penstock itself ─► bytecode ─► native op ─► stamp
#
# The stamp is removed before the first change and written at the end, so a set-up that was killed starts again.
#
#   scripts/setup.sh             set up; with CUDA if nvidia-smi shows a GPU
#   GPU=1 scripts/setup.sh       set up with CUDA (GPU=0: without); later set-ups keep the choice
#   scripts/setup.sh --uv        print the path of uv; install it first if it is missing

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly uv_version=0.13.7
readonly venv=.venv
readonly stamp=$venv/.penstock-ready
readonly compiled=$venv/.penstock-compiled
readonly chosen=.tools/chosen-lock # outlives a set-up that fails
readonly python=$venv/bin/python
readonly own=(components pipelines schemas data)

# Paths of another Python must not reach the builds.
unset PYTHONHOME PYTHONPATH

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }
works() { "$@" >/dev/null 2>&1; }

# Which lock: as asked, or else as the last set-up did, or else by what nvidia-smi shows.
choose_lock() {
    local gpu=${GPU:-}
    if [[ -z $gpu ]]; then
        last_lock && return
        if [[ $(nvidia-smi -L 2>/dev/null) == *GPU* ]]; then gpu=1; else gpu=0; fi
    fi
    case $gpu in
        1) echo requirements-gpu.lock ;;
        0) echo requirements.lock ;;
        *) fail "GPU is '$gpu'; expected GPU=1 (install CUDA), GPU=0 (do not), or no GPU= (as nvidia-smi shows)" ;;
    esac
}

last_lock() {
    local name='requirements[a-z-]*\.lock'
    grep -sx "$name" "$chosen" || grep -sx "$name" "$stamp"
}

# The folder of the environment, its lock, and the digest of the files it is made from.
state() {
    pwd -P
    echo "$lock"
    cat "$lock" pyproject.toml .python-version scripts/setup.sh | sha256
}

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

is_ready() { [[ -x $python && -r $stamp && $(<"$stamp") == "$(state)" ]]; }

# An environment without a stamp is missing or incomplete, and is made again. So is that of a tree that was moved or
# copied: the commands in an environment contain the absolute path of its interpreter.
is_updatable() {
    local place
    [[ -r $stamp ]] && read -r place <"$stamp" && [[ $place == "$(pwd -P)" ]] &&
        works "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 10))'
}

# Two commands started at once must not build the same folder. Without flock they are not synchronised.
take_turn() {
    mkdir -p .tools
    exec 9>.tools/lock
    if command -v flock >/dev/null; then flock 9; fi
}

require_compiler() {
    works g++ --version || fail "g++ is missing: pyfarmhash, which TFX needs, has no wheel and is built from source." \
        "Install a C++ compiler (Debian, Ubuntu: apt-get install g++) and run this again."
}

# Each candidate is run, not only looked up: a pyenv shim is on the PATH and fails if pyenv does not have the version
# in .python-version.
find_uv() {
    local candidate
    for candidate in uv .tools/uv/bin/uv; do
        if works "$candidate" --version; then command -v "$candidate"; return; fi
    done
    return 1
}

install_uv() {
    local candidate
    for candidate in python3 /usr/bin/python3 python; do
        works "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 8))' || continue
        say "installing uv $uv_version into .tools/uv with $candidate"
        if uv_by_venv "$candidate" || uv_by_target "$candidate"; then return; fi
    done
    fail "uv could not be installed: no python3 (3.8 or newer) here has venv or pip and can reach a package index." \
        "Install uv or pip (Debian, Ubuntu: apt-get install python3-venv) and run this again."
}

uv_by_venv() {
    rm -rf .tools/uv
    works "$1" -m venv .tools/uv && .tools/uv/bin/python -m pip install --quiet "uv==$uv_version"
}

# Debian's python3 without python3-venv has no ensurepip, but may have pip.
uv_by_target() {
    rm -rf .tools/uv
    works "$1" -m pip --version && "$1" -m pip install --quiet --target .tools/uv "uv==$uv_version"
}

# A Debian python3.10 without its -dev package cannot build pyfarmhash.
has_headers() {
    works "$1" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())'
}

find_python() {
    local candidate
    for candidate in "$("$uv" python find --system 3.10 2>/dev/null)" \
        "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.10*/bin/python3.10; do
        if has_headers "$candidate"; then printf '%s\n' "$candidate"; return; fi
    done
    return 1
}

make_environment() {
    local found
    rm -rf "$venv"
    if found=$(find_python); then
        say "making $venv with $("$found" --version)"
        "$uv" venv --quiet --no-project --python "$found" "$venv"
    else
        say "making $venv with a Python 3.10 that uv downloads (no Python 3.10 with header files was found)"
        "$uv" venv --quiet --no-project --python 3.10 --python-preference only-managed "$venv" ||
            fail "Python 3.10 could not be downloaded. Install it with its headers (python3.10-dev, or pyenv install 3.10)."
    fi
}

# The lock also constrains build dependencies, so a newer setuptools cannot break an old source package.
install_packages() {
    local size=3
    [[ $lock == requirements.lock ]] || size=6
    say "installing $(grep -c '^[^ #]' "$lock") packages of $lock ($size GB on disk; at least a minute the first time)"
    "$uv" pip sync --quiet --python "$python" --require-hashes --build-constraints "$lock" --compile-bytecode "$lock"
}

install_penstock() {
    say "installing penstock in editable mode"
    "$uv" pip install --quiet --python "$python" --no-deps --no-build-isolation --editable .
}

# compileall writes bytecode even if PYTHONDONTWRITEBYTECODE is set.
compile_own() {
    : >"$compiled.new" # before it reads the files: one that is saved meanwhile is newer
    say "compiling our own packages to bytecode"
    "$python" -m compileall -q "${own[@]}" || say "some files could not be compiled; continuing"
    mv "$compiled.new" "$compiled"
}

# A pull or a checkout gives the files that it changes the present time.
is_compiled() { [[ -e $compiled && -z $(find "${own[@]}" -name '*.py' -newer "$compiled" -print -quit) ]]; }

# The native JPEG libraries make training and ingest faster; everything works without them. `penstock doctor` reports
# whether they are built.
build_native() {
    "$python" -W ignore -m components.native.build >/dev/null ||
        say "the native JPEG libraries were not built; continuing without them"
}

set_up() {
    echo "$lock" >"$chosen"
    require_compiler
    uv=$(find_uv) || { install_uv; uv=$(find_uv); }
    say "using $("$uv" --version | cut -d ' ' -f 1,2)"
    is_updatable || make_environment
    rm -f "$stamp"
    install_packages
    install_penstock
    compile_own
    build_native
    state >"$stamp.new"
    mv "$stamp.new" "$stamp"
    say "ready in $SECONDS s"
}

main() {
    case ${1:-} in
        --uv) find_uv || { take_turn; install_uv; find_uv; } ;;
        '')
            lock=$(choose_lock)
            is_ready || { take_turn; is_ready || set_up; }
            is_compiled || compile_own
            ;;
        *) fail "unknown argument '$1'; expected none, or --uv" ;;
    esac
}

main "$@"

#!/usr/bin/env bash
# Makes .venv from requirements.lock, once.
#
#   stamp matches? ── yes ──► done, in milliseconds
#        │ no
#        ▼
#   g++ there? ─► uv ─► Python 3.10 ─► .venv ─► locked packages ─► penstock itself ─► bytecode ─► native op ─► stamp
#
# The stamp is removed before anything is changed and written last, so a set-up that was killed is started afresh.
#
#   scripts/setup.sh             set up
#   scripts/setup.sh --uv        print the path of uv (installed first when there is none), and nothing else

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly uv_version=0.13.7
readonly venv=.venv
readonly stamp=$venv/.penstock-ready
readonly python=$venv/bin/python

# Another Python's paths must not leak into the builds.
unset PYTHONHOME PYTHONPATH

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }
works() { "$@" >/dev/null 2>&1; }

# Where the environment stands, and what it was made from.
state() {
    pwd -P
    cat requirements.lock pyproject.toml .python-version scripts/setup.sh | sha256
}

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

is_ready() { [[ -x $python && -r $stamp && $(<"$stamp") == "$(state)" ]]; }

# Not so without a stamp: nothing was made, or its making was killed, and half an environment is not worth mending.
# Nor in a tree that was moved or copied: the commands in an environment name their interpreter by its full path.
is_updatable() {
    local place
    [[ -r $stamp ]] && read -r place <"$stamp" && [[ $place == "$(pwd -P)" ]] &&
        works "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 10))'
}

# Two commands started at once must not build the same folder; without flock the later one is simply not held back.
take_turn() {
    mkdir -p .tools
    exec 9>.tools/lock
    if command -v flock >/dev/null; then flock 9; fi
}

require_compiler() {
    works g++ --version || fail "g++ is missing: pyfarmhash, which TFX needs, has no wheel and is built from source." \
        "Install a C++ compiler (Debian, Ubuntu: apt-get install g++) and run this again."
}

# Each candidate is run, not only looked up: a pyenv shim is on the PATH and still fails when pyenv lacks the version
# that .python-version names.
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
    fail "uv could not be installed: no python3 (3.8 or newer) that has venv or pip and reaches a package index." \
        "Install uv or pip (Debian, Ubuntu: apt-get install python3-venv) and run this again."
}

uv_by_venv() {
    rm -rf .tools/uv
    works "$1" -m venv .tools/uv && .tools/uv/bin/python -m pip install --quiet "uv==$uv_version"
}

# Debian's python3 without python3-venv has no ensurepip, and may have pip.
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
        say "making $venv with a Python 3.10 that uv fetches (none here has its headers)"
        "$uv" venv --quiet --no-project --python 3.10 --python-preference only-managed "$venv" ||
            fail "no Python 3.10 could be fetched. Install one with its headers (python3.10-dev, or pyenv install 3.10)."
    fi
}

# The lock also constrains what packages are built with, so a newer setuptools cannot break an old source package.
install_packages() {
    say "installing $(grep -c '^[^ #]' requirements.lock) locked packages (3 GB on disk; a minute or more the first time)"
    "$uv" pip sync --quiet --python "$python" --require-hashes --build-constraints requirements.lock \
        --compile-bytecode requirements.lock
}

install_penstock() {
    say "installing penstock itself, editable"
    "$uv" pip install --quiet --python "$python" --no-deps --no-build-isolation --editable .
}

# compileall writes bytecode even when PYTHONDONTWRITEBYTECODE is set.
compile_own() {
    say "compiling bytecode of our own packages"
    "$python" -m compileall -q components pipelines schemas data || say "not all of it compiled; going on"
}

# It makes training on JPEGs faster and nothing else depends on it; `penstock doctor` says whether it is there.
build_native() {
    "$python" -W ignore -m components.native.build >/dev/null || say "it was not built; going on without it"
}

set_up() {
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
        '') is_ready || { take_turn; is_ready || set_up; } ;;
        *) fail "unknown argument '$1'; it takes none, or --uv" ;;
    esac
}

main "$@"

#!/usr/bin/env bash
# Installs a program that tests need, once, and prints its path: servers from Go's module proxy, Airflow in an
# environment of its own.
#
#   .tools/bin/versitygw-1.8.0 there? ── yes ──► print its path, in milliseconds
#        │ no
#        ▼
#   go there? ─► go mod download: is the module the pinned one? ─► go install ─► renamed when it is whole ─► print
#
# Go compares every module with its checksum database, unless GOSUMDB or GONOSUMDB say otherwise; the module of the
# server itself is also compared with the sum below.
#
#   scripts/tools.sh versitygw          a real S3 server (2 minutes the first time, 61 MB)
#   scripts/tools.sh fake-gcs-server    a server with the API of Google Cloud Storage
#   scripts/tools.sh airflow-2, airflow-3    Airflow by the locks in tests/airflow (20 s, 350 MB each); `make setup` first

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'tools: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

install_airflow() {
    local lock=$PWD/tests/airflow/$1.lock place=$PWD/.tools/$1 uv
    [[ -x .venv/bin/python ]] || fail "there is no environment: run make setup first"
    mkdir -p .tools
    exec 9>".tools/$1.install"
    if command -v flock >/dev/null; then flock 9; fi
    if ! cmp -s "$lock" "$place/installed.lock"; then
        say "installing $1"
        uv=$(scripts/setup.sh --uv)
        rm -rf "$place"
        "$uv" venv --quiet --python .venv/bin/python "$place"
        "$uv" pip install --quiet --python "$place/bin/python" --require-hashes -r "$lock" >&2 || fail "$1 could not be installed"
        cp "$lock" "$place/installed.lock"
    fi
    echo "$place/bin/airflow"
}

case ${1:-} in
    airflow-2 | airflow-3)
        install_airflow "$1"
        exit
        ;;
    versitygw)
        readonly module=github.com/versity/versitygw package=/cmd/versitygw version=1.8.0
        readonly sum=h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=
        ;;
    fake-gcs-server)
        readonly module=github.com/fsouza/fake-gcs-server package='' version=1.56.1
        readonly sum=h1:K03sAvbLvDz4hAynpCCUqnNRp+ik9JFSvHbkD/wTPOU=
        ;;
    *) fail "unknown tool '${1:-}'; expected versitygw, fake-gcs-server, airflow-2 or airflow-3" ;;
esac
readonly name=$1 program=$PWD/.tools/bin/$1-$version

if [[ ! -x $program ]]; then
    command -v go >/dev/null || fail "$name is not built and Go is missing: install Go 1.24 or newer, and run this again"
    mkdir -p .tools/bin
    exec 9>".tools/bin/$name.lock"
    if command -v flock >/dev/null; then flock 9; fi # two test processes must not build it twice
fi
if [[ ! -x $program ]]; then
    say "building $name $version"
    found=$(cd / && go mod download -json "$module@v$version" | sed -n 's/^\s*"Sum": "\(.*\)",\{0,1\}$/\1/p') ||
        fail "$module could not be downloaded"
    [[ $found == "$sum" ]] || fail "$module@v$version has the checksum $found, expected $sum: not built"
    building=$(mktemp -d .tools/bin/building-XXXXXX)
    trap 'rm -rf "$building"' EXIT
    (cd / && GOBIN=$OLDPWD/$building go install -ldflags='-s -w' "$module$package@v$version") ||
        fail "$name $version could not be built"
    mv "$building/$name" "$program"
fi
echo "$program"

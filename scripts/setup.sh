#!/bin/sh
# Install what is missing on this machine. Its argument says for what:
#   python    the environment: Python and its venv module
#   servers   that, and Postgres and VictoriaMetrics for `monitor dev`
#   tests     that, and what only the tests use
#   compose   what brings docker-compose.yml up in a test
# Nothing is installed twice, and no system service is used: `monitor dev` and the
# tests start servers of their own. MONITOR_SKIP_INSTALL=1 only says what is missing.
set -eu

case ${1:-} in
    python | servers | tests | compose) purpose=$1 ;;
    *) echo "usage: $0 python|servers|tests|compose" >&2; exit 2 ;;
esac
python=${PYTHON:-python3}
missing=""

# need PACKAGE CHECK...: remember the Debian package unless the check succeeds.
need() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

any_program() {
    for name in "$@"; do
        command -v "$name" && return 0
    done
    return 1
}

has_postgres() {
    any_program initdb && return 0
    for program in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$program" ] && return 0
    done
    return 1
}

has_static_busybox() {
    program=$(command -v busybox) && ! ldd "$program"
}

# Daemons live in sbin, which an ordinary user's PATH may lack.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

need python3 any_program "$python"
need python3-venv "$python" -c 'import ensurepip, venv'
if [ "$purpose" != python ]; then
    need postgresql has_postgres
    need victoria-metrics any_program "${VICTORIA_METRICS:-victoria-metrics}" victoria-metrics-prod
fi
if [ "$purpose" = tests ]; then
    need docker.io any_program dockerd
    need busybox-static has_static_busybox
    need prometheus any_program promtool
    need chromium any_program chromium
    need curl any_program curl
    need prometheus-alertmanager any_program prometheus-alertmanager alertmanager
fi

if [ "$purpose" = compose ]; then
    need docker.io any_program dockerd
    need docker-compose any_program docker-compose
    need debootstrap any_program debootstrap
fi

if [ -n "$missing" ]; then
    install="apt-get install -y --no-install-recommends$missing"
    if [ "${MONITOR_SKIP_INSTALL:-}" = 1 ]; then
        echo "Not installed, as MONITOR_SKIP_INSTALL=1 asks:$missing" >&2
    elif ! command -v apt-get >/dev/null; then
        echo "This machine has no apt-get. Please install what these Debian packages hold:$missing" >&2
        exit 1
    elif [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        echo "Some packages are missing, and there is no sudo. As root, please run:" >&2
        echo "  apt-get update && $install" >&2
        exit 1
    else
        echo "Installing:$missing" >&2
        sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
        # Another apt may be at work on a machine that has just started: wait for it.
        apt="-o DPkg::Lock::Timeout=300"
        # shellcheck disable=SC2086 # words are meant to split
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get $apt -q update
        # shellcheck disable=SC2086
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get $apt -q install -y --no-install-recommends $missing
    fi
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "$python is $("$python" --version 2>&1): 3.11 or newer is needed; name one with PYTHON=..." >&2
    exit 1
}

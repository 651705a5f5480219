#!/bin/sh
# Build a real Kubernetes API server for tests/kubernetes, once, outside the repository.
#
# The folder is KUBE_APISERVER, or ~/.cache/monitor-kubernetes. When this is done it holds
# kube-apiserver and kube-controller-manager, built from Debian's source package, and the
# folder's name is printed. What is there is kept: a second run only prints the name.
# Root's rights are needed once, for the compiler, etcd and kubectl.
set -eu

folder=${KUBE_APISERVER:-$HOME/.cache/monitor-kubernetes}
# The name of the program itself will do as well as that of its folder.
[ ! -f "$folder" ] || folder=$(dirname "$folder")
programs="kube-apiserver kube-controller-manager"

has_programs() {
    for program in $programs; do
        [ -x "$folder/$program" ] || return 1
    done
}

missing=""
command -v etcd >/dev/null || missing="$missing etcd-server"
command -v kubectl >/dev/null || missing="$missing kubernetes-client"
if ! has_programs; then
    command -v go >/dev/null || missing="$missing golang-go"
    command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
    for program in make rsync jq; do
        command -v $program >/dev/null || missing="$missing $program"
    done
    command -v dpkg-source >/dev/null || missing="$missing dpkg-dev"
fi
if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        echo "Some packages are missing. As root, please run: apt-get install$missing" >&2
        exit 1
    fi
    echo "Installing:$missing" >&2
    sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
    apt="-o DPkg::Lock::Timeout=300"
    # A daemon's package starts the daemon: the tests start an etcd of their own.
    # shellcheck disable=SC2086 # words are meant to split
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get $apt -q update >&2
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get $apt -q install -y --no-install-recommends $missing >&2
fi
if has_programs; then
    echo "$folder"
    exit 0
fi

mkdir -p "$folder/apt/lists/partial" "$folder/apt/sources"
build=$folder/go/src/k8s.io

# The machine's own sources of packages, asked for source packages, in lists of our own.
for list in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list" >"$folder/apt/sources/$(basename "$list")"
done
: >"$folder/apt/sources.list"
if [ -f /etc/apt/sources.list ]; then
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$folder/apt/sources.list"
fi
own_lists="-o Dir::Etc::SourceList=$folder/apt/sources.list -o Dir::Etc::SourceParts=$folder/apt/sources
    -o Dir::State::Lists=$folder/apt/lists -o APT::Sandbox::User=root"

mkdir -p "$build"
cd "$build"
if [ ! -d kubernetes ]; then
    # shellcheck disable=SC2086
    apt-get $own_lists -q update >&2
    rm -rf kubernetes-[0-9]*
    # shellcheck disable=SC2086
    apt-get $own_lists -q source kubernetes >&2
    mv kubernetes-[0-9]*/ kubernetes
fi
cd kubernetes
version=$(dpkg-parsechangelog -S Version | sed 's/[-+~].*//')
cat >"$folder/version.sh" <<END
KUBE_GIT_COMMIT=unknown
KUBE_GIT_TREE_STATE=archive
KUBE_GIT_VERSION=v$version
KUBE_GIT_MAJOR=$(echo "$version" | cut -d. -f1)
KUBE_GIT_MINOR=$(echo "$version" | cut -d. -f2)
END
echo "Building Kubernetes $version: about 5 minutes on two idle cores" >&2
GOPATH=$folder/go GO111MODULE=off GOFLAGS= KUBE_GIT_VERSION_FILE=$folder/version.sh \
    nice -n 19 make WHAT="cmd/kube-apiserver cmd/kube-controller-manager" >&2
for program in $programs; do
    cp "_output/bin/$program" "$folder/$program.new"
    mv "$folder/$program.new" "$folder/$program"
done
# The sources and what the compiler keeps are gigabytes, and of no further use.
cd "$folder"
chmod -R u+w go
rm -rf go apt version.sh
echo "$folder"

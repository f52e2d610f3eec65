#!/usr/bin/env bash
# Builds a kube-apiserver from Debian's source package into a folder, once: kube_apiserver.sh FOLDER.
# Some ten minutes of CPU and a few GB while it runs. Needs root and Debian; says so, and fails, elsewhere.
set -euo pipefail
folder=$1/kube-apiserver-1.20
[ -e "$folder/.complete" ] && exit 0
stop() {
  echo "$1" >&2
  exit 1
}
[ "$(id -u)" = 0 ] || stop "not root"
command -v apt-get >/dev/null || stop "no apt-get here"
mkdir -p "$folder/lists/partial" "$folder/sources" "$folder/home"
cd "$folder"
log=$folder/build.log
exec 3>&2 >"$log" 2>&1
trap 'tail -n 3 "$log" >&3' ERR

# The sources of the packages that this machine gets its binaries from; only the commands below see them.
apt-get indextargets --format '$(CREATED_BY)|$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)' \
  | awk -F'|' '$1 == "Packages" && $2 == "Debian" && $5 == "main" { print "deb-src", $3, $4, $5 }' \
  | sort -u >sources/debian.list
[ -s sources/debian.list ] || { echo "no package lists of Debian here" >&3; exit 1; }
apart=(-o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$folder/sources" -o "Dir::State::Lists=$folder/lists")
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -qq --no-install-recommends \
  golang-go golang-github-modern-go-reflect2-dev dpkg-dev rsync make gcc etcd-server
apt-get "${apart[@]}" update -qq
rm -rf tree kubernetes_*
apt-get "${apart[@]}" source --download-only kubernetes
dpkg-source -x kubernetes_*.dsc tree

# The vendored reflect2 crashes when built with Go 1.18 or later; Debian packages one that does not.
vendored=tree/vendor/github.com/modern-go/reflect2
rm -f "$vendored"/*.go "$vendored"/*.s
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$vendored"
mkdir -p tree/.go/src/k8s.io
ln -sfn ../../.. tree/.go/src/k8s.io/kubernetes
env HOME="$folder/home" GOCACHE="$folder/home/cache" GOPATH="$folder/tree/.go" GOPROXY=off CGO_ENABLED=0 \
  GOFLAGS= PATH="/usr/lib/go/bin:$PATH" make -C tree WHAT=cmd/kube-apiserver
cp tree/_output/bin/kube-apiserver .
chmod -R u+w tree home
rm -rf tree home lists sources kubernetes_*
touch .complete

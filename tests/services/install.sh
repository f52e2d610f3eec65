#!/usr/bin/env bash
# Installs the Debian packages that tests of real services need. Quick when they are there already;
# without the rights to install, it says which tests will skip and succeeds.
set -euo pipefail

packages=(
  chromium prometheus prometheus-alertmanager maven openjdk-17-jre-headless
  slurmctld slurmd slurmdbd slurm-client munge mariadb-server postgresql
)

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

skip() {
  echo "services: ${missing[*]} not installed ($1); the tests that need them will skip by name" >&2
  exit 0
}
[ "$(uname)" = Linux ] && command -v apt-get >/dev/null || skip "no apt-get here"
[ "$(id -u)" = 0 ] || skip "not root"

# Packages may start their service when they are installed; tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi

log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >"$log" 2>&1 || true # an old list may do
if ! apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
  tail -n 5 "$log" >&2
  rm -f "$log"
  skip "apt-get failed"
fi
rm -f "$log"

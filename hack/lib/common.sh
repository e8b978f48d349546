# Copyright The Kubernetes Authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

# Shared by the scripts in hack/. To be sourced.

# shellcheck disable=SC2034 # Used by the scripts that source this file.
REPO_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)

# log::step prints a line with the seconds since the script started.
log::step() {
  printf '[%4ds] %s\n' "${SECONDS}" "$*"
}

log::warn() {
  printf '[%4ds] WARNING: %s\n' "${SECONDS}" "$*" >&2
}

# log::die prints an error that says what to do and ends the script.
log::die() {
  printf '[%4ds] ERROR: %s\n' "${SECONDS}" "$*" >&2
  exit 1
}

# deps::require makes sure that the named Debian packages are installed:
# installs the missing ones as root, else names the command to run.
deps::require() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null; then
    log::warn "not a Debian machine; install the equivalent of: $*"
    return 0
  fi
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "${package}" 2>/dev/null) != installed ]]; then
      missing+=("${package}")
    fi
  done
  if (( ${#missing[@]} == 0 )); then
    return 0
  fi
  if (( EUID != 0 )); then
    log::die "missing Debian packages; run: sudo apt-get install -y --no-install-recommends ${missing[*]}"
  fi
  log::step "installing Debian packages: ${missing[*]}"
  local out
  out=$(mktemp)
  if ! { apt-get update && DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${missing[@]}"; } >"${out}" 2>&1; then
    tail -n 20 "${out}" >&2
    rm -f "${out}"
    log::die "apt-get could not install ${missing[*]}"
  fi
  rm -f "${out}"
}

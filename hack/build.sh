#!/usr/bin/env bash

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

# Builds binaries and images from the composed tree and from hack/tools.
#
# Usage: hack/build.sh [what...]
#
# Each "what" is a group or the name of a binary; without any, everything is
# built. Groups:
#   kubernetes  kube-apiserver kubelet kube-controller-manager kube-scheduler
#               kube-proxy kubectl kubeadm
#   e2e         e2e.test ginkgo dynamic_perf
#   tools       etcd containerd containerd-shim-runc-v2 ctr runc crictl gotestsum
#               and the CNI plugins (hack/tools/<name>/go.mod pins the versions)
#   images      pause, busybox and agnhost as docker-archives
#
# Environment:
#   TREE         the composed tree (_output/tree)
#   GO_OUT       where the binaries go (_output/bin)
#   IMAGES_OUT   where the images go (_output/images)
#   KUBE_GIT_VERSION, KUBE_GIT_COMMIT, SOURCE_DATE_EPOCH   version stamp

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

TREE=${TREE:-${REPO_ROOT}/_output/tree}
GO_OUT=${GO_OUT:-${REPO_ROOT}/_output/bin}
IMAGES_OUT=${IMAGES_OUT:-${REPO_ROOT}/_output/images}

KUBERNETES=(kube-apiserver kubelet kube-controller-manager kube-scheduler kube-proxy kubectl kubeadm)
E2E=(ginkgo e2e.test dynamic_perf)
CONTAINERD=(containerd containerd-shim-runc-v2 ctr)
TOOLS=(etcd "${CONTAINERD[@]}" runc crictl gotestsum cni)

# Go's build cache only helps when every build uses the same flags, so all of
# them are here. -buildvcs=false because the tree's own git commit says nothing.
export CGO_ENABLED=0
export GOFLAGS="-trimpath -buildvcs=false"
# The tags of upstream's release binaries.
TAGS=selinux,notest,grpcnotrace

# build::progress shows that a build is alive: it counts the packages that
# 'go build -v' names, and passes all other lines on.
build::progress() {
  local line count=0 shown=${SECONDS}
  while IFS= read -r line; do
    if [[ ${line} =~ ^[A-Za-z0-9._~/-]+$ ]]; then
      count=$((count + 1))
    elif [[ ${line} != "go: downloading "* ]]; then
      printf '%s\n' "${line}"
    fi
    if (( SECONDS - shown >= 10 )); then
      log::step "  ... ${count} packages compiled"
      shown=${SECONDS}
    fi
  done
  if (( count > 0 )); then
    log::step "  ${count} packages compiled"
  fi
}

# build::ldflags prints upstream's version stamp. The build date is the date of
# the commit, so that building a commit twice gives the same bytes.
build::ldflags() {
  local version=${KUBE_GIT_VERSION:-v1.37.2+dynamic.1} commit=${KUBE_GIT_COMMIT:-} state=clean epoch
  commit=${commit:-$(git -C "${REPO_ROOT}" rev-parse -q --verify HEAD || true)}
  if [[ -n $(git -C "${REPO_ROOT}" status --porcelain --untracked-files=no 2>/dev/null) ]]; then
    state=dirty
  fi
  epoch=${SOURCE_DATE_EPOCH:-$(git -C "${REPO_ROOT}" log -1 --format=%ct 2>/dev/null || echo 0)}
  local minor=${version#v*.}
  local stamp=(
    gitVersion="${version}"
    gitMajor=1
    gitMinor="${minor%%.*}"
    gitCommit="${commit:-unknown}"
    gitTreeState="${state}"
    buildDate="$(date -u -d "@${epoch}" +%Y-%m-%dT%H:%M:%SZ)"
  )
  local item flags=()
  for item in "${stamp[@]}"; do
    flags+=("-X=k8s.io/component-base/version.${item}" "-X=k8s.io/client-go/pkg/version.${item}")
  done
  printf '%s' "${flags[*]} -s -w"
}

# build::version prints the version of module $2 that hack/tools/$1 pins.
build::version() {
  go list -C "${REPO_ROOT}/hack/tools/$1" -m -f '{{.Version}}' "$2"
}

# build::tool builds package $2 of hack/tools/$1 as $3; more arguments go to
# 'go build'.
build::tool() {
  local module=$1 package=$2 output=$3
  shift 3
  log::step "  $(basename "${output}")"
  go build -C "${REPO_ROOT}/hack/tools/${module}" -v -o "${output}" "$@" "${package}" 2>&1 | build::progress
}

build::tools() {
  local name repo
  for name in "$@"; do
    case "${name}" in
      etcd)
        build::tool etcd go.etcd.io/etcd/server/v3 "${GO_OUT}/etcd" ;;
      containerd|containerd-shim-runc-v2|ctr)
        repo=github.com/containerd/containerd/v2
        build::tool containerd "${repo}/cmd/${name}" "${GO_OUT}/${name}" -tags no_btrfs,no_zfs \
          -ldflags "-s -w -X=${repo}/version.Version=$(build::version containerd "${repo}")" ;;
      runc)
        deps::require gcc libc6-dev pkg-config libseccomp-dev
        # cgo: runc enters namespaces in C before Go starts. Static, so that it
        # also runs in images.
        CGO_ENABLED=1 build::tool runc github.com/opencontainers/runc "${GO_OUT}/runc" \
          -tags seccomp,netgo,osusergo -ldflags "-s -w -extldflags=-static" ;;
      crictl)
        repo=sigs.k8s.io/cri-tools
        build::tool cri-tools "${repo}/cmd/crictl" "${GO_OUT}/crictl" \
          -ldflags "-s -w -X=${repo}/pkg/version.Version=$(build::version cri-tools "${repo}")" ;;
      gotestsum)
        build::tool gotestsum gotest.tools/gotestsum "${GO_OUT}/gotestsum" ;;
      cni)
        mkdir -p "${GO_OUT}/cni"
        repo=github.com/containernetworking/plugins
        build::tool cni tool "${GO_OUT}/cni/" \
          -ldflags "-s -w -X=${repo}/pkg/utils/buildversion.BuildVersion=$(build::version cni "${repo}")" ;;
    esac
  done
}

build::require_tree() {
  if [[ ! -f ${TREE}/go.work ]]; then
    log::die "there is no composed tree in ${TREE}; run: make tree"
  fi
}

build::main() {
  local what kubernetes=() e2e=() tools=() images=
  if (( $# == 0 )); then
    set -- tools kubernetes e2e images
  fi
  for what in "$@"; do
    case "${what}" in
      kubernetes) kubernetes+=("${KUBERNETES[@]}") ;;
      e2e) e2e+=("${E2E[@]}") ;;
      tools) tools+=("${TOOLS[@]}") ;;
      images) images=yes ;;
      *)
        if [[ " ${KUBERNETES[*]} " == *" ${what} "* ]]; then
          kubernetes+=("${what}")
        elif [[ " ${E2E[*]} " == *" ${what} "* ]]; then
          e2e+=("${what}")
        elif [[ " ${TOOLS[*]} " == *" ${what} "* ]]; then
          tools+=("${what}")
        else
          log::die "nothing is named '${what}'; groups: kubernetes e2e tools images; binaries: ${KUBERNETES[*]} ${E2E[*]} ${TOOLS[*]}"
        fi ;;
    esac
  done

  command -v go >/dev/null || log::die "go is not in PATH; get it from https://go.dev/dl/"
  mkdir -p "${GO_OUT}" "${IMAGES_OUT}"

  if (( ${#tools[@]} > 0 )); then
    log::step "building tools: ${tools[*]}"
    build::tools "${tools[@]}"
  fi

  # One 'go build' for all that comes from the tree: packages in common are
  # compiled once, and linking overlaps with compiling.
  local packages=() name
  for name in "${kubernetes[@]}"; do
    packages+=("./cmd/${name}")
  done
  for name in "${e2e[@]}"; do
    case "${name}" in
      ginkgo) packages+=("github.com/onsi/ginkgo/v2/ginkgo") ;;
      dynamic_perf) packages+=("./test/dynamic_perf") ;;
    esac
  done
  if (( ${#packages[@]} > 0 )); then
    build::require_tree
    log::step "building from the tree: ${packages[*]##*/}"
    go build -C "${TREE}" -v -tags "${TAGS}" -ldflags "all=$(build::ldflags)" -o "${GO_OUT}/" "${packages[@]}" 2>&1 | build::progress
  fi
  if [[ " ${e2e[*]} " == *" e2e.test "* ]]; then
    build::require_tree
    log::step "building e2e.test"
    # Cold, vetting all that upstream's specs import takes minutes.
    go test -C "${TREE}" -v -vet=off -tags "${TAGS}" -ldflags "all=$(build::ldflags)" -c -o "${GO_OUT}/e2e.test" ./test/e2e 2>&1 | build::progress
  fi

  if [[ -n ${images} ]]; then
    build::require_tree
    deps::require gcc libc6-dev busybox-static
    log::step "building images"
    local agnhost_version
    agnhost_version=$(<"${TREE}/test/images/agnhost/VERSION")
    go build -C "${TREE}" -v -ldflags "-s -w -X=main.Version=${agnhost_version}" -o "${IMAGES_OUT}/agnhost" ./test/images/agnhost 2>&1 | build::progress
    go build -C "${REPO_ROOT}/build/images" -o "${IMAGES_OUT}/assemble" .
    "${IMAGES_OUT}/assemble" -tree "${TREE}" -agnhost "${IMAGES_OUT}/agnhost" -out "${IMAGES_OUT}"
  fi
  log::step "built into ${GO_OUT}"
}

build::main "$@"

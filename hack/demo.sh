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

# Shows the main job on the local cluster: adds a container to a running pod, and
# removes it again, without touching the rest of the pod.

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

export PATH="${REPO_ROOT}/_output/bin:${PATH}"
# Not the KUBECONFIG of the user, who may work with another cluster.
export KUBECONFIG=${REPO_ROOT}/_output/cluster/kubeconfig
POD=demo
IMAGE=registry.k8s.io/e2e-test-images/busybox:1.37.0-2

# demo::run prints a command as one would type it, and runs it.
demo::run() {
  local argument bold='' plain=''
  if [[ -t 1 ]]; then
    bold=$'\033[1m' plain=$'\033[0m'
  fi
  printf '\n%s$' "${bold}"
  for argument in "$@"; do
    if [[ ${argument} == *[[:space:]]* ]]; then
      argument="'${argument//\'/\'\\\'\'}'"
    fi
    printf ' %s' "${argument}"
  done
  printf '%s\n' "${plain}"
  "$@"
}

demo::say() {
  printf '\n# %s\n' "$*"
}

# demo::status prints what must not change, and every container.
demo::status() {
  # shellcheck disable=SC2016 # The template's variable, not ours.
  kubectl get pod "${POD}" -o go-template='
{{- printf "pod %s  phase %s  IP %s\n" .metadata.name .status.phase .status.podIP -}}
{{- range .status.containerStatuses -}}
{{- printf "  %-8s" .name -}}
{{- range $state, $_ := .state }}{{ printf " %-10s" $state }}{{ end -}}
{{- printf " ready %-5t restarts %v  %.24s\n" .ready .restartCount (or .containerID "-") -}}
{{- end -}}'
}

# demo::container prints the JSON of a container that prints the time.
demo::container() {
  printf '{"name": "%s", "image": "%s", "command": ["sh", "-c", "while date; do sleep 1; done"]}' "$1" "${IMAGE}"
}

kubectl delete pod "${POD}" --ignore-not-found --now >/dev/null 2>&1
demo::say "A pod with one container."
kubectl create -f - >/dev/null <<END
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "${POD}"}, "spec": {"terminationGracePeriodSeconds": 5, "containers": [$(demo::container main)]}}
END
kubectl wait --for=condition=Ready "pod/${POD}" --timeout=60s >/dev/null
demo::status
before=$(kubectl get pod "${POD}" -o jsonpath='{.status.podIP} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}')

demo::say "Add a container to it."
demo::run kubectl patch pod "${POD}" --subresource=dynamic --patch "{\"spec\": {\"containers\": [$(demo::container added)]}}"
kubectl wait --for='jsonpath={.status.containerStatuses[?(@.name=="added")].state.running}' "pod/${POD}" --timeout=60s >/dev/null
demo::status
sleep 2
demo::run kubectl logs "${POD}" -c added

demo::say "Remove it: it is terminated, and its status is kept."
# shellcheck disable=SC2016 # A directive of strategic merge patches.
demo::run kubectl patch pod "${POD}" --subresource=dynamic --patch '{"spec": {"containers": [{"name": "added", "$patch": "delete"}]}}'
kubectl wait --for='jsonpath={.status.containerStatuses[?(@.name=="added")].state.terminated}' "pod/${POD}" --timeout=60s >/dev/null
demo::status

after=$(kubectl get pod "${POD}" -o jsonpath='{.status.podIP} {.status.containerStatuses[?(@.name=="main")].containerID} {.status.containerStatuses[?(@.name=="main")].restartCount}')
if [[ ${before} != "${after}" ]]; then
  log::die "the rest of the pod changed: was '${before}', is '${after}'"
fi
demo::say "The pod kept its IP, and the container main its ID and restart count. The cluster still runs:"
cat <<END

  export KUBECONFIG=${KUBECONFIG}
  ${REPO_ROOT}/_output/bin/kubectl get pods
  make down
END

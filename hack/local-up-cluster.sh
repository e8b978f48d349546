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

# Runs a real single-node Kubernetes cluster on this machine: etcd, the control
# plane, containerd with runc and CNI, kubelet and kube-proxy. There is no DNS
# for services, because there is no CoreDNS image.

set -o errexit -o nounset -o pipefail

# shellcheck source=hack/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=hack/lib/daemon.sh
source "${REPO_ROOT}/hack/lib/daemon.sh"
# shellcheck source=hack/lib/host.sh
source "${REPO_ROOT}/hack/lib/host.sh"

usage() {
  cat <<END
Usage: hack/local-up-cluster.sh [-o <dir with binaries>] [command]

Commands:
  (none)                  start the cluster and stay in the foreground; Ctrl-C ends it
                          (with ENABLE_DAEMON=true: start it and return)
  up                      start the cluster and return; starts again what is not running
  down                    end the cluster and remove all that it put on this machine
  status                  show what runs; fails if anything does not
  restart <component>...  end and start components, with new binaries; variables given
                          now (FEATURE_GATES, KUBELET_FLAGS, ...) win over those of 'up'
                          for as long as this component runs
  stop <component>...     end components
  start <component>...    start components again

Components: ${COMPONENTS[*]}

Environment, with the meaning it has for upstream's script. These and more are at the
top of hack/local-up-cluster.sh:
  FEATURE_GATES RUNTIME_CONFIG LOG_LEVEL KUBELET_FLAGS CONTAINER_RUNTIME_ENDPOINT
  API_SECURE_PORT SERVICE_CLUSTER_IP_RANGE ALLOW_PRIVILEGED ENABLE_ADMISSION_PLUGINS
  KUBE_CONTROLLERS START_MODE ENABLE_DAEMON GO_OUT CERT_DIR LOG_DIR ...
and for more flags:
  ETCD_FLAGS CONTAINERD_FLAGS APISERVER_FLAGS CONTROLLER_MANAGER_FLAGS SCHEDULER_FLAGS
  KUBELET_FLAGS PROXY_FLAGS
END
}

COMPONENTS=(etcd kube-apiserver kube-controller-manager kube-scheduler containerd kubelet kube-proxy)

CLUSTER_DIR=${CLUSTER_DIR:-${REPO_ROOT}/_output/cluster}
mkdir -p "${CLUSTER_DIR}"
CLUSTER_DIR=$(cd "${CLUSTER_DIR}" && pwd -P)

RUN_DIR=${CLUSTER_DIR}/run
BEFORE_DIR=${RUN_DIR}/before
KUBELET_DIR=${CLUSTER_DIR}/kubelet
CNI_DIR=${CLUSTER_DIR}/cni
CONTAINERD_SOCKET=${CLUSTER_DIR}/containerd.sock
KUBECONFIG_FILE=${CLUSTER_DIR}/kubeconfig
SETTINGS_FILE=${RUN_DIR}/settings
NETWORK_NAME=dynamic-containers

# --- Settings -----------------------------------------------------------------

SETTINGS=()
CHANGED_SETTINGS=()
declare -A SAVED_SETTINGS=()

# setting defines variable $1: from the environment, else as it was when the
# cluster was started, else $2.
setting() {
  SETTINGS+=("$1")
  if [[ -z ${!1:-} ]]; then
    printf -v "$1" '%s' "${SAVED_SETTINGS[$1]-$2}"
  elif [[ -v SAVED_SETTINGS[$1] && ${SAVED_SETTINGS[$1]} != "${!1}" ]]; then
    CHANGED_SETTINGS+=("$1")
  fi
}

settings::load() {
  local name value
  SETTINGS=() CHANGED_SETTINGS=() SAVED_SETTINGS=()
  if [[ -f ${SETTINGS_FILE} ]]; then
    while IFS='=' read -r name value; do
      SAVED_SETTINGS[${name}]=$(printf '%b' "${value}")
    done <"${SETTINGS_FILE}"
  fi

  setting GO_OUT "${REPO_ROOT}/_output/bin"
  setting IMAGES_DIR "${REPO_ROOT}/_output/images"
  setting LOG_DIR "${CLUSTER_DIR}/logs"
  setting LOG_LEVEL 3
  setting LOG_SPEC ""
  # all, kubeletonly, nokubelet, nokubeproxy or nokubelet,nokubeproxy
  setting START_MODE all

  setting FEATURE_GATES DynamicContainers=true,KubeletAllocatedPodsEndpoint=true
  setting RUNTIME_CONFIG ""
  setting EMULATED_VERSION ""

  # All listeners are on loopback.
  setting API_BIND_ADDR 127.0.0.1
  setting API_HOST_IP 127.0.0.1
  setting API_SECURE_PORT 6443
  setting ADVERTISE_ADDRESS ""
  setting EXTERNAL_HOSTNAME localhost
  setting ETCD_HOST 127.0.0.1
  setting ETCD_PORT 2379
  setting ETCD_PEER_PORT 2380
  setting ETCD_DIR "${CLUSTER_DIR}/etcd"
  setting PRESERVE_ETCD false
  setting KCM_SECURE_PORT 10257
  setting SCHEDULER_SECURE_PORT 10259
  setting KUBELET_HOST 127.0.0.1
  setting KUBELET_PORT 10250
  setting KUBELET_HEALTHZ_PORT 10248
  setting KUBELET_READ_ONLY_PORT 0
  setting PROXY_HEALTHZ_PORT 10256
  setting PROXY_METRICS_PORT 10249

  setting CLUSTER_CIDR 10.1.0.0/16
  setting SERVICE_CLUSTER_IP_RANGE 10.0.0.0/24
  setting NODE_PORT_RANGE ""

  setting CERT_DIR "${CLUSTER_DIR}/pki"
  setting REUSE_CERTS false
  setting SERVICE_ACCOUNT_KEY "${CERT_DIR}/service-account.key"
  setting AUTHORIZATION_MODE Node,RBAC
  setting AUTHORIZATION_CONFIG ""
  setting AUDIT_POLICY_FILE ""
  setting ENABLE_ADMISSION_PLUGINS NodeRestriction
  setting DISABLE_ADMISSION_PLUGINS ""
  setting ADMISSION_CONTROL_CONFIG_FILE ""
  setting ALLOW_PRIVILEGED true
  setting KUBE_DEFAULT_STORAGE_CLASS true
  setting ENABLE_HOSTPATH_PROVISIONER false
  setting KUBE_CONTROLLERS "*"
  setting LEADER_ELECT false

  setting HOSTNAME_OVERRIDE 127.0.0.1
  setting CONTAINER_RUNTIME_ENDPOINT "unix://${CONTAINERD_SOCKET}"
  setting IMAGE_SERVICE_ENDPOINT ""
  setting RUNTIME_REQUEST_TIMEOUT 2m
  setting POD_MANIFEST_PATH "${CLUSTER_DIR}/static-pods"
  setting KUBELET_RESOLV_CONF /etc/resolv.conf
  setting KUBE_DNS_SERVER_IP ""
  setting KUBE_DNS_NAME cluster.local
  setting CGROUP_DRIVER cgroupfs
  setting CGROUP_ROOT /dynamic-containers
  setting CPU_CFS_QUOTA true
  setting FAIL_SWAP_ON false
  setting LIMITED_SWAP ""
  # Not shares of the disk: a tenth of a large one is no shortage.
  setting EVICTION_HARD "imagefs.available<2Gi,memory.available<100Mi,nodefs.available<2Gi,nodefs.inodesFree<5%"
  setting EVICTION_SOFT ""
  setting EVICTION_PRESSURE_TRANSITION_PERIOD 1m
  setting TOPOLOGY_MANAGER_POLICY ""
  setting MEMORY_MANAGER_POLICY ""
  setting CPUMANAGER_POLICY ""
  setting CPUMANAGER_RECONCILE_PERIOD ""
  setting CPUMANAGER_POLICY_OPTIONS ""
  setting KUBE_PROXY_MODE ""

  setting ETCD_FLAGS ""
  setting CONTAINERD_FLAGS ""
  setting APISERVER_FLAGS ""
  setting CONTROLLER_MANAGER_FLAGS ""
  setting SCHEDULER_FLAGS ""
  setting KUBELET_FLAGS ""
  setting PROXY_FLAGS ""

  LOG_DIR=$(realpath -m "${LOG_DIR}")
  GO_OUT=$(realpath -m "${GO_OUT}")
  KUBECTL=("${GO_OUT}/kubectl" --kubeconfig="${KUBECONFIG_FILE}")
  # The daemons' own cgroup, in one hierarchy: enough to find them and all that
  # they start.
  DAEMONS_CGROUP=$(host::cgroup_mounts | grep -m1 '/pids$' || host::cgroup_mounts | head -n 1)
  DAEMONS_CGROUP=${DAEMONS_CGROUP}${CGROUP_ROOT}/daemons
}

settings::save() {
  local name
  for name in "${SETTINGS[@]}"; do
    printf '%s=%s\n' "${name}" "${!name//\\/\\\\}"
  done >"${SETTINGS_FILE}"
}

own_runtime() {
  [[ ${CONTAINER_RUNTIME_ENDPOINT} == "unix://${CONTAINERD_SOCKET}" ]]
}

# components prints what START_MODE and CONTAINER_RUNTIME_ENDPOINT ask for, in
# the order of starting.
components() {
  local name
  for name in "${COMPONENTS[@]}"; do
    case "${START_MODE}:${name}" in
      kubeletonly:containerd|kubeletonly:kubelet) ;;
      kubeletonly:*) continue ;;
      *nokubelet*:containerd|*nokubelet*:kubelet|*nokubeproxy*:kube-proxy) continue ;;
    esac
    if [[ ${name} == containerd ]] && ! own_runtime; then
      continue
    fi
    echo "${name}"
  done
}

wanted() {
  components | grep -qx "$1"
}

# has_capability succeeds if this process has capability number $1.
has_capability() {
  local effective
  effective=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
  (( (0x${effective} >> $1) & 1 ))
}
CAP_SYS_RESOURCE=24

# yaml_map turns "a=1,b=2" into the YAML map $1; $3 is the separator.
yaml_map() {
  local item items separator=${3:-=}
  [[ -n $2 ]] || return 0
  echo "$1:"
  IFS=, read -ra items <<<"$2"
  for item in "${items[@]}"; do
    echo "  ${item%%"${separator}"*}: ${4:-}${item#*"${separator}"}${4:-}"
  done
}

# yaml_value prints "$1: $2" unless $2 is empty.
yaml_value() {
  if [[ -n $2 ]]; then
    echo "$1: \"$2\""
  fi
}

# --- Certificates ---------------------------------------------------------------

# pki::ca makes the certificate authority $1.
pki::ca() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 3650 \
    -subj "/CN=$1" -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature \
    -keyout "${CERT_DIR}/$1.key" -out "${CERT_DIR}/$1.crt" 2>/dev/null
}

# pki::cert makes certificate $2 signed by $1, for subject $3. More arguments are
# alternative names: the certificate is then one for a server.
pki::cert() {
  local ca=$1 name=$2 subject=$3 extensions=(-addext extendedKeyUsage=clientAuth)
  shift 3
  if (( $# > 0 )); then
    extensions=(-addext extendedKeyUsage=serverAuth -addext "subjectAltName=$(IFS=,; echo "$*")")
  fi
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 3650 \
    -CA "${CERT_DIR}/${ca}.crt" -CAkey "${CERT_DIR}/${ca}.key" -subj "${subject}" \
    -addext basicConstraints=critical,CA:FALSE -addext keyUsage=critical,digitalSignature "${extensions[@]}" \
    -keyout "${CERT_DIR}/${name}.key" -out "${CERT_DIR}/${name}.crt" 2>/dev/null ||
    log::die "openssl could not make certificate ${name} (openssl 3 is needed)"
}

# pki::kubeconfig writes a kubeconfig for the client certificate $1 to $2.
pki::kubeconfig() {
  cat >"$2" <<END
apiVersion: v1
kind: Config
current-context: local
clusters:
- name: local
  cluster:
    server: https://${API_HOST_IP}:${API_SECURE_PORT}
    certificate-authority-data: $(base64 -w0 "${CERT_DIR}/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "${CERT_DIR}/$1.crt")
    client-key-data: $(base64 -w0 "${CERT_DIR}/$1.key")
contexts:
- name: local
  context:
    cluster: local
    user: $1
END
}

pki::create() {
  mkdir -p "${CERT_DIR}"
  if [[ ${REUSE_CERTS} != true || ! -f ${CERT_DIR}/ca.crt ]]; then
    pki::ca ca
    pki::ca front-proxy-ca
    pki::cert ca kube-apiserver /CN=kube-apiserver DNS:localhost DNS:kubernetes DNS:kubernetes.default \
      DNS:kubernetes.default.svc "DNS:kubernetes.default.svc.${KUBE_DNS_NAME}" "DNS:${EXTERNAL_HOSTNAME}" \
      IP:127.0.0.1 "IP:${API_HOST_IP}" "IP:$(host::first_address "${SERVICE_CLUSTER_IP_RANGE}")"
    pki::cert ca kubelet-serving "/O=system:nodes/CN=system:node:${HOSTNAME_OVERRIDE}" DNS:localhost IP:127.0.0.1 "IP:${KUBELET_HOST}"
    pki::cert ca kube-apiserver-kubelet-client /CN=kube-apiserver
    pki::cert ca admin /O=system:masters/CN=system:admin
    pki::cert ca kube-controller-manager /CN=system:kube-controller-manager
    pki::cert ca kube-scheduler /CN=system:kube-scheduler
    pki::cert ca kube-proxy /CN=system:kube-proxy
    pki::cert ca kubelet "/O=system:nodes/CN=system:node:${HOSTNAME_OVERRIDE}"
    pki::cert front-proxy-ca front-proxy-client /CN=system:auth-proxy
  fi
  if [[ ! -f ${SERVICE_ACCOUNT_KEY} ]]; then
    openssl genrsa -out "${SERVICE_ACCOUNT_KEY}" 2048 2>/dev/null
  fi
  local name
  for name in kube-controller-manager kube-scheduler kube-proxy kubelet; do
    pki::kubeconfig "${name}" "${CERT_DIR}/${name}.kubeconfig"
  done
  pki::kubeconfig admin "${KUBECONFIG_FILE}"
  chmod -R go-rwx "${CERT_DIR}" "${KUBECONFIG_FILE}"
  if [[ -n ${SUDO_UID:-} ]]; then
    chown "${SUDO_UID}" "${KUBECONFIG_FILE}"
  fi
}

# --- Components: start::<name> starts one, ready::<name> tells when it works -----

# http_ok succeeds if http://127.0.0.1:$1$2 answers 200.
http_ok() {
  local status
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
  printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$2" >&3
  IFS= read -r -t 5 status <&3
  exec 3>&-
  [[ ${status} == *" 200 "* ]]
}

# Flags given by users are split into words.
# shellcheck disable=SC2086
start::etcd() {
  daemon::start etcd "${GO_OUT}/etcd" --name=local --data-dir="${ETCD_DIR}" \
    --listen-client-urls="http://${ETCD_HOST}:${ETCD_PORT}" --advertise-client-urls="http://${ETCD_HOST}:${ETCD_PORT}" \
    --listen-peer-urls="http://${ETCD_HOST}:${ETCD_PEER_PORT}" --initial-advertise-peer-urls="http://${ETCD_HOST}:${ETCD_PEER_PORT}" \
    --initial-cluster="local=http://${ETCD_HOST}:${ETCD_PEER_PORT}" --unsafe-no-fsync --log-level=warn ${ETCD_FLAGS}
}

ready::etcd() {
  http_ok "${ETCD_PORT}" /health
}

# shellcheck disable=SC2086
start::kube-apiserver() {
  local flags=()
  if [[ -n ${AUTHORIZATION_CONFIG} ]]; then
    flags+=(--authorization-config="${AUTHORIZATION_CONFIG}")
  else
    flags+=(--authorization-mode="${AUTHORIZATION_MODE}")
  fi
  if [[ -n ${AUDIT_POLICY_FILE} ]]; then
    flags+=(--audit-policy-file="${AUDIT_POLICY_FILE}" --audit-log-path="${LOG_DIR}/kube-apiserver-audit.log")
  fi
  if [[ -n ${ADVERTISE_ADDRESS} ]]; then
    flags+=(--advertise-address="${ADVERTISE_ADDRESS}")
  else
    # A loopback address cannot be an endpoint of the "kubernetes" service;
    # host::network leads its clients here instead.
    flags+=(--endpoint-reconciler-type=none)
  fi
  [[ -z ${RUNTIME_CONFIG} ]] || flags+=(--runtime-config="${RUNTIME_CONFIG}")
  [[ -z ${EMULATED_VERSION} ]] || flags+=(--emulated-version="kube=${EMULATED_VERSION}")
  [[ -z ${NODE_PORT_RANGE} ]] || flags+=(--service-node-port-range="${NODE_PORT_RANGE}")
  [[ -z ${ADMISSION_CONTROL_CONFIG_FILE} ]] || flags+=(--admission-control-config-file="${ADMISSION_CONTROL_CONFIG_FILE}")
  daemon::start kube-apiserver "${GO_OUT}/kube-apiserver" --v="${LOG_LEVEL}" --vmodule="${LOG_SPEC}" \
    --etcd-servers="http://${ETCD_HOST}:${ETCD_PORT}" \
    --bind-address="${API_BIND_ADDR}" --secure-port="${API_SECURE_PORT}" --external-hostname="${EXTERNAL_HOSTNAME}" \
    --tls-cert-file="${CERT_DIR}/kube-apiserver.crt" --tls-private-key-file="${CERT_DIR}/kube-apiserver.key" --cert-dir="${CERT_DIR}" \
    --client-ca-file="${CERT_DIR}/ca.crt" \
    --kubelet-client-certificate="${CERT_DIR}/kube-apiserver-kubelet-client.crt" \
    --kubelet-client-key="${CERT_DIR}/kube-apiserver-kubelet-client.key" \
    --kubelet-certificate-authority="${CERT_DIR}/ca.crt" --kubelet-port="${KUBELET_PORT}" \
    --kubelet-preferred-address-types=Hostname \
    --service-account-key-file="${SERVICE_ACCOUNT_KEY}" --service-account-signing-key-file="${SERVICE_ACCOUNT_KEY}" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-jwks-uri=https://kubernetes.default.svc/openid/v1/jwks \
    --requestheader-client-ca-file="${CERT_DIR}/front-proxy-ca.crt" --requestheader-allowed-names=system:auth-proxy \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="${CERT_DIR}/front-proxy-client.crt" --proxy-client-key-file="${CERT_DIR}/front-proxy-client.key" \
    --service-cluster-ip-range="${SERVICE_CLUSTER_IP_RANGE}" --allow-privileged="${ALLOW_PRIVILEGED}" \
    --enable-admission-plugins="${ENABLE_ADMISSION_PLUGINS}" --disable-admission-plugins="${DISABLE_ADMISSION_PLUGINS}" \
    --feature-gates="${FEATURE_GATES}" "${flags[@]}" ${APISERVER_FLAGS}
}

ready::kube-apiserver() {
  "${KUBECTL[@]}" get --raw=/readyz --request-timeout=5s
}

# shellcheck disable=SC2086
start::kube-controller-manager() {
  local kubeconfig=${CERT_DIR}/kube-controller-manager.kubeconfig flags=()
  [[ -z ${EMULATED_VERSION} ]] || flags+=(--emulated-version="kube=${EMULATED_VERSION}")
  daemon::start kube-controller-manager "${GO_OUT}/kube-controller-manager" --v="${LOG_LEVEL}" --vmodule="${LOG_SPEC}" \
    --kubeconfig="${kubeconfig}" --authentication-kubeconfig="${kubeconfig}" --authorization-kubeconfig="${kubeconfig}" \
    --bind-address="${API_BIND_ADDR}" --secure-port="${KCM_SECURE_PORT}" --cert-dir="${CERT_DIR}" \
    --leader-elect="${LEADER_ELECT}" --controllers="${KUBE_CONTROLLERS}" --use-service-account-credentials \
    --root-ca-file="${CERT_DIR}/ca.crt" --service-account-private-key-file="${SERVICE_ACCOUNT_KEY}" \
    --cluster-signing-cert-file="${CERT_DIR}/ca.crt" --cluster-signing-key-file="${CERT_DIR}/ca.key" \
    --enable-hostpath-provisioner="${ENABLE_HOSTPATH_PROVISIONER}" \
    --feature-gates="${FEATURE_GATES}" "${flags[@]}" ${CONTROLLER_MANAGER_FLAGS}
}

ready::kube-controller-manager() {
  # Pods can be created once the controllers made this.
  "${KUBECTL[@]}" get serviceaccount default --namespace=default
}

# shellcheck disable=SC2086
start::kube-scheduler() {
  local kubeconfig=${CERT_DIR}/kube-scheduler.kubeconfig flags=()
  [[ -z ${EMULATED_VERSION} ]] || flags+=(--emulated-version="kube=${EMULATED_VERSION}")
  cat >"${RUN_DIR}/kube-scheduler.yaml" <<END
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: ${kubeconfig}
leaderElection:
  leaderElect: ${LEADER_ELECT}
END
  daemon::start kube-scheduler "${GO_OUT}/kube-scheduler" --v="${LOG_LEVEL}" --vmodule="${LOG_SPEC}" \
    --config="${RUN_DIR}/kube-scheduler.yaml" --authentication-kubeconfig="${kubeconfig}" --authorization-kubeconfig="${kubeconfig}" \
    --bind-address="${API_BIND_ADDR}" --secure-port="${SCHEDULER_SECURE_PORT}" --cert-dir="${CERT_DIR}" \
    --feature-gates="${FEATURE_GATES}" "${flags[@]}" ${SCHEDULER_FLAGS}
}

ready::kube-scheduler() {
  # With credentials, or kubectl asks for a user name.
  "${GO_OUT}/kubectl" --kubeconfig=/dev/null --server="https://127.0.0.1:${SCHEDULER_SECURE_PORT}" --insecure-skip-tls-verify \
    --client-certificate="${CERT_DIR}/admin.crt" --client-key="${CERT_DIR}/admin.key" get --raw=/healthz --request-timeout=5s
}

# shellcheck disable=SC2086
start::containerd() {
  local restrict=false snapshotter=overlayfs
  has_capability "${CAP_SYS_RESOURCE}" || restrict=true
  # An overlay cannot be stacked on another.
  [[ $(stat -f -c %T "${CLUSTER_DIR}") != overlayfs ]] || snapshotter=native
  mkdir -p "${CNI_DIR}/net.d" /run/dynamic-containers/s
  cat >"${CNI_DIR}/net.d/10-pods.conflist" <<END
{
  "cniVersion": "1.0.0",
  "name": "${NETWORK_NAME}",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "dataDir": "${CNI_DIR}/addresses",
        "ranges": [[{"subnet": "${CLUSTER_CIDR}"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
END
  # Everything that defaults to a path outside of our directory is set.
  cat >"${RUN_DIR}/containerd.toml" <<END
version = 3
root = "${CLUSTER_DIR}/containerd/root"
state = "${CLUSTER_DIR}/containerd/state"
temp = "${CLUSTER_DIR}/containerd/temp"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
  address = "${CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "${CLUSTER_DIR}/containerd/opt"

[plugins."io.containerd.shim.v1.manager"]
  # Short, because unix sockets have short names.
  socket_dir = "/run/dynamic-containers/s"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "${snapshotter}"

[plugins."io.containerd.cri.v1.images".pinned_images]
  # There may be no registry to pull from again, so the kubelet must not
  # collect these.
$(images::list | awk '{ printf "  %s = \"%s\"\n", $1 == "pause" ? "sandbox" : $1, $2 }')

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = ${restrict}
  netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["${GO_OUT}/cni"]
  conf_dir = "${CNI_DIR}/net.d"

[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  runtime_path = "${GO_OUT}/containerd-shim-runc-v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "${GO_OUT}/runc"
  Root = "${CLUSTER_DIR}/containerd/runc"
  SystemdCgroup = $([[ ${CGROUP_DRIVER} == systemd ]] && echo true || echo false)
END
  daemon::start containerd "${GO_OUT}/containerd" --config="${RUN_DIR}/containerd.toml" ${CONTAINERD_FLAGS}
}

ready::containerd() {
  ctr version
}

# shellcheck disable=SC2086
start::kubelet() {
  local dns=${KUBE_DNS_SERVER_IP} flags=()
  # Without a DNS service, pods ask whom the machine asks.
  if [[ -z ${dns} ]]; then
    dns=$(awk '$1 == "nameserver" && $2 ~ /^[0-9.]+$/ && $2 !~ /^127\./ { print $2; exit }' "${KUBELET_RESOLV_CONF}" 2>/dev/null || true)
  fi
  mkdir -p "${POD_MANIFEST_PATH}" "${CLUSTER_DIR}/volume-plugins"
  {
    cat <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: "${KUBELET_HOST}"
port: ${KUBELET_PORT}
readOnlyPort: ${KUBELET_READ_ONLY_PORT}
healthzBindAddress: "${KUBELET_HOST}"
healthzPort: ${KUBELET_HEALTHZ_PORT}
tlsCertFile: "${CERT_DIR}/kubelet-serving.crt"
tlsPrivateKeyFile: "${CERT_DIR}/kubelet-serving.key"
authentication:
  anonymous:
    enabled: false
  webhook:
    enabled: true
  x509:
    clientCAFile: "${CERT_DIR}/ca.crt"
authorization:
  mode: Webhook
containerRuntimeEndpoint: "${CONTAINER_RUNTIME_ENDPOINT}"
runtimeRequestTimeout: "${RUNTIME_REQUEST_TIMEOUT}"
cgroupDriver: "${CGROUP_DRIVER}"
cgroupRoot: "${CGROUP_ROOT}"
cpuCFSQuota: ${CPU_CFS_QUOTA}
failSwapOn: ${FAIL_SWAP_ON}
staticPodPath: "${POD_MANIFEST_PATH}"
podLogsDir: "${CLUSTER_DIR}/pod-logs"
volumePluginDir: "${CLUSTER_DIR}/volume-plugins"
resolvConf: "${KUBELET_RESOLV_CONF}"
clusterDNS: ["${dns:-$(host::first_address "${SERVICE_CLUSTER_IP_RANGE}")0}"]
clusterDomain: "${KUBE_DNS_NAME}"
evictionPressureTransitionPeriod: "${EVICTION_PRESSURE_TRANSITION_PERIOD}"
# Off: without a registry an image that was deleted cannot be pulled again.
imageGCHighThresholdPercent: 100
END
    yaml_value imageServiceEndpoint "${IMAGE_SERVICE_ENDPOINT}"
    yaml_map evictionHard "${EVICTION_HARD}" "<" '"'
    yaml_map evictionSoft "${EVICTION_SOFT}" "<" '"'
    yaml_map featureGates "${FEATURE_GATES}"
    yaml_value topologyManagerPolicy "${TOPOLOGY_MANAGER_POLICY}"
    yaml_value memoryManagerPolicy "${MEMORY_MANAGER_POLICY}"
    yaml_value cpuManagerPolicy "${CPUMANAGER_POLICY}"
    yaml_value cpuManagerReconcilePeriod "${CPUMANAGER_RECONCILE_PERIOD}"
    yaml_map cpuManagerPolicyOptions "${CPUMANAGER_POLICY_OPTIONS}" = '"'
    if [[ ${LIMITED_SWAP} == true ]]; then
      yaml_map memorySwap swapBehavior=LimitedSwap
    fi
    if [[ $(host::cgroup_version) == 1 ]]; then
      echo "failCgroupV1: false"
    fi
    if ! has_capability "${CAP_SYS_RESOURCE}"; then
      echo "oomScoreAdj: 0"
    fi
  } >"${RUN_DIR}/kubelet.yaml"
  daemon::start kubelet "${GO_OUT}/kubelet" --v="${LOG_LEVEL}" --vmodule="${LOG_SPEC}" \
    --config="${RUN_DIR}/kubelet.yaml" --kubeconfig="${CERT_DIR}/kubelet.kubeconfig" --root-dir="${KUBELET_DIR}" \
    --cert-dir="${KUBELET_DIR}/pki" --hostname-override="${HOSTNAME_OVERRIDE}" "${flags[@]}" ${KUBELET_FLAGS}
}

ready::kubelet() {
  http_ok "${KUBELET_HEALTHZ_PORT}" /healthz
}

# shellcheck disable=SC2086
start::kube-proxy() {
  {
    cat <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection:
  kubeconfig: ${CERT_DIR}/kube-proxy.kubeconfig
hostnameOverride: ${HOSTNAME_OVERRIDE}
mode: "${KUBE_PROXY_MODE}"
bindAddress: 127.0.0.1
healthzBindAddress: 127.0.0.1:${PROXY_HEALTHZ_PORT}
metricsBindAddress: 127.0.0.1:${PROXY_METRICS_PORT}
detectLocalMode: ClusterCIDR
clusterCIDR: ${CLUSTER_CIDR}
nodePortAddresses: ["127.0.0.0/8"]
conntrack:
  # The machine's connection tracking is not ours to tune.
  maxPerCore: 0
  tcpEstablishedTimeout: 0s
  tcpCloseWaitTimeout: 0s
END
    yaml_map featureGates "${FEATURE_GATES}"
    if ! has_capability "${CAP_SYS_RESOURCE}"; then
      echo "oomScoreAdj: 0"
    fi
  } >"${RUN_DIR}/kube-proxy.yaml"
  daemon::start kube-proxy "${GO_OUT}/kube-proxy" --v="${LOG_LEVEL}" --vmodule="${LOG_SPEC}" \
    --config="${RUN_DIR}/kube-proxy.yaml" ${PROXY_FLAGS}
}

ready::kube-proxy() {
  http_ok "${PROXY_HEALTHZ_PORT}" /healthz
}

# --- Images ---------------------------------------------------------------------

ctr() {
  "${GO_OUT}/ctr" --address "${CONTAINERD_SOCKET}" --namespace k8s.io "$@"
}

# images::list prints "<short name> <full name>" for every image archive.
images::list() {
  local archive
  for archive in "${IMAGES_DIR}"/*.tar; do
    if [[ -f ${archive} ]]; then
      echo "$(basename "${archive}" .tar) $(tar -xOf "${archive}" manifest.json | sed 's/.*"RepoTags":\["\([^"]*\)".*/\1/')"
    fi
  done
}

# images::import imports the archives that changed since they were imported.
images::import() {
  local archive stamp
  own_runtime || { log::step "images are not imported into ${CONTAINER_RUNTIME_ENDPOINT}, which is not ours"; return 0; }
  mkdir -p "${RUN_DIR}/images"
  for archive in "${IMAGES_DIR}"/*.tar; do
    [[ -f ${archive} ]] || { log::warn "no images in ${IMAGES_DIR} (hack/build.sh images); pods need a registry"; return 0; }
    stamp=${RUN_DIR}/images/$(basename "${archive}")
    if [[ $(stat -c '%s %Y %i' "${archive}") != "$(cat "${stamp}" 2>/dev/null)" ]]; then
      ctr images import "${archive}" >>"${LOG_DIR}/images.log" 2>&1 ||
        log::die "could not import ${archive}: $(tail -n 3 "${LOG_DIR}/images.log")"
      stat -c '%s %Y %i' "${archive}" >"${stamp}"
    fi
  done
}

# --- Commands -------------------------------------------------------------------

cluster::lock() {
  exec 9>"${CLUSTER_DIR}/lock"
  flock -w 300 9 || log::die "another hack/local-up-cluster.sh is at work on ${CLUSTER_DIR}"
}

cluster::check_binaries() {
  local name missing=()
  for name in kubectl $(components); do
    [[ -x ${GO_OUT}/${name} ]] || missing+=("${name}")
  done
  if wanted containerd; then
    for name in ctr runc containerd-shim-runc-v2 cni/ptp; do
      [[ -x ${GO_OUT}/${name} ]] || missing+=("${name}")
    done
  fi
  if (( ${#missing[@]} > 0 )); then
    log::die "not in ${GO_OUT}: ${missing[*]}; run 'make build', or name the directory in GO_OUT"
  fi
}

# cluster::check_ports fails early, and says why, when something else listens.
cluster::check_ports() {
  local name port
  for name in ETCD_PORT ETCD_PEER_PORT API_SECURE_PORT KCM_SECURE_PORT SCHEDULER_SECURE_PORT KUBELET_PORT \
      KUBELET_HEALTHZ_PORT PROXY_HEALTHZ_PORT PROXY_METRICS_PORT; do
    port=${!name}
    if (exec 3<>"/dev/tcp/127.0.0.1/${port}") 2>/dev/null; then
      log::die "port ${port} is in use by something else; choose another with ${name}"
    fi
  done
  # sockaddr_un has room for 107 characters, and containerd adds ".ttrpc".
  if (( ${#CONTAINERD_SOCKET} > 100 )); then
    log::die "the socket name ${CONTAINERD_SOCKET} is too long; set CLUSTER_DIR to a shorter path"
  fi
}

# cluster::start starts the given components that do not run and waits until
# they work. The API server is waited for before those that need it.
cluster::start() {
  local name started=()
  for name in "$@"; do
    daemon::pid "${name}" >/dev/null && continue
    log::step "starting ${name}"
    "start::${name}"
    started+=("${name}")
    if [[ ${name} == etcd || ${name} == kube-apiserver ]]; then
      daemon::wait "${name}" 120 "${name}" "ready::${name}"
    fi
  done
  for name in "${started[@]}"; do
    daemon::wait "${name}" 120 "${name}" "ready::${name}"
  done
}

# cluster::objects makes what upstream's script also puts into a new cluster.
cluster::objects() {
  {
    cat <<END
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: kube-apiserver-kubelet-admin
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:kubelet-api-admin
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: kube-apiserver
END
    if [[ ${KUBE_DEFAULT_STORAGE_CLASS} == true ]]; then
      cat <<END
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations:
    storageclass.kubernetes.io/is-default-class: "true"
provisioner: kubernetes.io/host-path
END
    fi
  } | "${KUBECTL[@]}" apply -f - >>"${LOG_DIR}/objects.log" 2>&1 ||
    log::die "could not create the first objects: $(tail -n 3 "${LOG_DIR}/objects.log")"
}

node_ready() {
  [[ $("${KUBECTL[@]}" get node "${HOSTNAME_OVERRIDE}" \
    -o jsonpath='{.status.conditions[?(@.type=="Ready")].status} {.spec.taints[*].key}') == "True " ]]
}

cluster::dead() {
  local name
  for name in $(components); do
    daemon::pid "${name}" >/dev/null || echo "${name}"
  done
}

cluster::up() {
  local dead
  deps::require iptables iproute2 openssl mount util-linux procps
  cluster::check_binaries
  if [[ -f ${SETTINGS_FILE} ]]; then
    dead=$(cluster::dead)
    if [[ -z ${dead} ]]; then
      # An 'up' that was interrupted may have left these out.
      images::import
      [[ ${START_MODE} == kubeletonly ]] || cluster::objects
      if (( ${#CHANGED_SETTINGS[@]} > 0 )); then
        log::warn "the cluster was started with another value of: ${CHANGED_SETTINGS[*]}; use 'restart <component>' or 'down' first"
      fi
      log::step "the cluster is already up; export KUBECONFIG=${KUBECONFIG_FILE}"
      return 0
    fi
    if [[ $(wc -w <<<"${dead}") == $(components | wc -l) ]]; then
      log::step "removing what is left of an earlier cluster"
      cluster::remove
      settings::load
    else
      log::step "not running any more: ${dead//$'\n'/ }"
    fi
  elif [[ -n $(host::leftovers) ]]; then
    log::step "removing what is left of an earlier cluster"
    cluster::remove
  fi

  if [[ ! -f ${SETTINGS_FILE} ]]; then
    cluster::check_ports
    rm -rf "${LOG_DIR}"
    mkdir -p "${RUN_DIR}" "${LOG_DIR}" "${ETCD_DIR}"
    chmod 700 "${RUN_DIR}" "${ETCD_DIR}"
    host::remember
    settings::save
    log::step "preparing: cgroup v$(host::cgroup_version), driver ${CGROUP_DRIVER}, gates ${FEATURE_GATES}"
    host::prepare
    pki::create
  fi

  # containerd first: it gets its images while the control plane starts.
  if wanted containerd; then
    cluster::start containerd
    images::import
  fi
  # shellcheck disable=SC2046 # One word for each component.
  cluster::start $(components)
  if [[ ${START_MODE} != kubeletonly ]]; then
    cluster::objects
    if wanted kubelet; then
      daemon::wait kubelet 120 "node ${HOSTNAME_OVERRIDE} to be Ready" node_ready
      cluster::warn_pressure
    fi
  fi
  dead=$(cluster::dead)
  [[ -z ${dead} ]] || log::die "ended soon after the start: ${dead//$'\n'/ }; see ${LOG_DIR}"
  cat <<END
Local Kubernetes cluster is running (no cluster DNS: services have addresses, not names).

  export KUBECONFIG=${KUBECONFIG_FILE}
  ${GO_OUT}/kubectl get nodes

Logs: ${LOG_DIR}/{$(components | paste -sd,)}.log
END
  log::step "up"
}

# cluster::warn_pressure tells about a node that takes no pods although Ready.
cluster::warn_pressure() {
  local pressure
  pressure=$("${KUBECTL[@]}" get node "${HOSTNAME_OVERRIDE}" \
    -o jsonpath='{range .status.conditions[?(@.status=="True")]}{.type}{"\n"}{end}' | grep Pressure || true)
  if [[ -n ${pressure} ]]; then
    log::warn "the node has ${pressure//$'\n'/ } and takes no pods; make room or set EVICTION_HARD (now ${EVICTION_HARD})"
  fi
}

# cluster::remove ends everything and deletes all but the logs. Containers are
# not stopped one by one: the state that they would leave behind is deleted as a
# whole, and this is the same work whether the cluster is well or half dead.
cluster::remove() {
  daemon::stop kube-proxy kubelet
  if ! own_runtime; then
    cluster::remove_foreign_pods
  fi
  # kube-apiserver does not end while etcd is gone.
  daemon::stop kube-scheduler kube-controller-manager kube-apiserver
  daemon::stop containerd etcd
  host::clean
  local left
  left=$(host::leftovers)
  if [[ -n ${left} ]]; then
    echo "${left}" >&2
    log::die "the above is left of the cluster and could not be removed"
  fi
  local keep=(! -path "${LOG_DIR}" ! -name lock)
  [[ ${PRESERVE_ETCD} != true ]] || keep+=(! -path "${ETCD_DIR}")
  [[ ${REUSE_CERTS} != true ]] || keep+=(! -path "${CERT_DIR}")
  find "${CLUSTER_DIR}" -mindepth 1 -maxdepth 1 "${keep[@]}" -exec rm -rf --one-file-system {} +
}

# cluster::remove_foreign_pods removes our kubelet's pods, and no others, from a
# runtime that is not ours.
cluster::remove_foreign_pods() {
  local directory pods
  for directory in "${KUBELET_DIR}"/pods/*; do
    pods=$("${GO_OUT}/crictl" --runtime-endpoint "${CONTAINER_RUNTIME_ENDPOINT}" pods -q \
      --label "io.kubernetes.pod.uid=$(basename "${directory}")" 2>/dev/null || true)
    # shellcheck disable=SC2086 # One word for each pod.
    [[ -z ${pods} ]] || "${GO_OUT}/crictl" --timeout 30s --runtime-endpoint "${CONTAINER_RUNTIME_ENDPOINT}" rmp -f ${pods} >/dev/null || true
  done
}

cluster::down() {
  if [[ ! -d ${RUN_DIR} && -z $(host::leftovers) ]]; then
    log::step "the cluster is not up"
    return 0
  fi
  log::step "ending the cluster"
  cluster::remove
  log::step "down; the logs are in ${LOG_DIR}"
}

cluster::status() {
  local name pid result=0
  [[ -f ${SETTINGS_FILE} ]] || { echo "the cluster is not up"; return 3; }
  for name in $(components); do
    if pid=$(daemon::pid "${name}"); then
      printf '%-24s running, process %s\n' "${name}" "${pid}"
    else
      printf '%-24s not running; log: %s\n' "${name}" "${LOG_DIR}/${name}.log"
      result=3
    fi
  done
  "${KUBECTL[@]}" get nodes --request-timeout=5s || result=3
  return "${result}"
}

cluster::require_up() {
  [[ -f ${SETTINGS_FILE} ]] || log::die "the cluster is not up"
  local name
  (( $# > 0 )) || log::die "name one or more of: ${COMPONENTS[*]}"
  for name in "$@"; do
    wanted "${name}" || log::die "no component '${name}' here; there are: $(components | paste -sd ' ')"
  done
}

# cluster::foreground watches the cluster until Ctrl-C, then ends it.
cluster::foreground() {
  local name reported=" "
  trap 'echo; cluster::lock; cluster::down; trap - EXIT; exit 0' INT TERM
  trap 'cluster::lock; cluster::down' EXIT
  cluster::lock
  cluster::up
  flock -u 9
  echo "Press Ctrl-C to shut it down."
  while :; do
    # 'wait' lets the trap run at once.
    sleep 1 9>&- & wait $! || true
    for name in $(components); do
      if [[ ${reported} != *" ${name} "* ]] && ! daemon::pid "${name}" >/dev/null; then
        # Somebody may be restarting it.
        flock 9
        daemon::pid "${name}" >/dev/null || { log::warn "${name} ended unexpectedly, see ${LOG_DIR}/${name}.log"; reported+="${name} "; }
        flock -u 9
      fi
    done
  done
}

main() {
  local command option
  [[ ${1:-} != --help ]] || set -- -h
  while getopts "ho:" option; do
    case "${option}" in
      h) usage; exit 0 ;;
      o) GO_OUT=${OPTARG} ;;
      *) usage >&2; exit 2 ;;
    esac
  done
  shift $((OPTIND - 1))
  command=${1:-}
  (( $# == 0 )) || shift
  if (( EUID != 0 )); then
    command -v sudo >/dev/null || log::die "must run as root: it makes containers, networks and cgroups"
    exec sudo --preserve-env PATH="${PATH}" "${REPO_ROOT}/hack/local-up-cluster.sh" ${GO_OUT:+-o "${GO_OUT}"} ${command:+"${command}"} "$@"
  fi
  if [[ -z ${command} && ${ENABLE_DAEMON:-false} == true ]]; then
    command=up
  fi
  settings::load
  case "${command}" in
    "") cluster::foreground ;;
    up) cluster::lock; cluster::up ;;
    down) cluster::lock; cluster::down ;;
    status) cluster::status ;;
    restart) cluster::require_up "$@"; cluster::lock; daemon::stop "$@"; cluster::start "$@" ;;
    stop) cluster::require_up "$@"; cluster::lock; daemon::stop "$@" ;;
    start) cluster::require_up "$@"; cluster::lock; cluster::start "$@" ;;
    *) usage >&2; exit 2 ;;
  esac
}

main "$@"

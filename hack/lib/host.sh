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

# What the local cluster changes on the machine outside of its own directory:
# cgroups, mounts, network, sysctls and a few paths that are compiled into
# Kubernetes. host::prepare makes it, host::clean takes it back whatever state
# the cluster is in, host::leftovers lists what is still there.
#
# Everything is recognised by something that belongs to this cluster alone: its
# cgroup root, its directory, its pods' addresses, or that it was not there
# before (recorded in BEFORE_DIR). To be sourced.

# Paths that kubelet, libcni and containerd use whatever we configure.
HOST_PATHS=(/var/lib/kubelet /var/log/containers /var/log/pods /var/lib/cni /run/dynamic-containers /var/run/netns)
HOST_SYSCTLS=(
  vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops
  kernel/keys/root_maxkeys kernel/keys/root_maxbytes
  net/ipv4/ip_forward net/ipv4/conf/all/route_localnet net/netfilter/nf_conntrack_tcp_be_liberal
)

# host::cgroup_version prints 1 or 2.
host::cgroup_version() {
  if [[ $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]]; then echo 2; else echo 1; fi
}

# host::cgroup_mounts prints the mount point of every cgroup hierarchy.
host::cgroup_mounts() {
  awk '{ for (i = 7; $i != "-"; i++); if ($(i+1) ~ /^cgroup2?$/) print $5 }' /proc/self/mountinfo | sort -u
}

# host::cgroup_roots prints our cgroup root in every hierarchy where it exists.
host::cgroup_roots() {
  local mount
  host::cgroup_mounts | while read -r mount; do
    if [[ -d ${mount}${CGROUP_ROOT} ]]; then
      echo "${mount}${CGROUP_ROOT}"
    fi
  done
}

# host::cgroup_create makes the cgroup under which the kubelet puts all pods,
# and one beside them that keeps track of our daemons and the shims.
host::cgroup_create() {
  local mount file
  while read -r mount; do
    mkdir -p "${mount}${CGROUP_ROOT}"
    for file in cpuset.cpus cpuset.mems; do
      # On v1 a new cpuset is empty, and nothing can run in an empty one.
      if [[ $(host::cgroup_version) == 1 && -f ${mount}/${file} ]]; then
        cat "${mount}/${file}" >"${mount}${CGROUP_ROOT}/${file}"
      fi
    done
  done < <(host::cgroup_mounts)
  if [[ $(host::cgroup_version) == 2 ]]; then
    host::cgroup_enable /sys/fs/cgroup
    host::cgroup_enable "/sys/fs/cgroup${CGROUP_ROOT}"
  fi
  mkdir -p "${DAEMONS_CGROUP}"
}

# host::cgroup_enable passes all v2 controllers of cgroup $1 on to its children.
host::cgroup_enable() {
  local controllers
  controllers=$(sed -e 's/^/+/' -e 's/ / +/g' "$1/cgroup.controllers")
  if ! echo "${controllers}" >"$1/cgroup.subtree_control" 2>/dev/null; then
    # In a container the root cgroup may hold processes, and then it cannot
    # have controllers for children: move them one level down.
    mkdir -p "$1/init"
    xargs -rn1 <"$1/cgroup.procs" >"$1/init/cgroup.procs" 2>/dev/null || true
    echo "${controllers}" >"$1/cgroup.subtree_control" ||
      log::die "cannot enable the cgroup controllers (${controllers}) in $1"
  fi
}

# host::cgroup_pids prints the processes in our cgroups.
host::cgroup_pids() {
  local roots
  mapfile -t roots < <(host::cgroup_roots)
  if (( ${#roots[@]} > 0 )); then
    find "${roots[@]}" -name cgroup.procs -exec cat {} + 2>/dev/null | grep -vx 0 | sort -un || true
  fi
}

# host::cgroup_kill kills all processes in our cgroups: containers, shims and
# daemons.
host::cgroup_kill() {
  local deadline=$((SECONDS + 20)) pids root
  while read -r root; do
    # A frozen process cannot die.
    find "${root}" -name freezer.state -exec sh -c 'echo THAWED >"$1"' _ {} \; 2>/dev/null || true
    find "${root}" -name cgroup.freeze -exec sh -c 'echo 0 >"$1"' _ {} \; 2>/dev/null || true
  done < <(host::cgroup_roots)
  while mapfile -t pids < <(host::cgroup_pids); (( ${#pids[@]} > 0 )); do
    if (( SECONDS > deadline )); then
      log::warn "processes survive SIGKILL: ${pids[*]}"
      return 1
    fi
    kill -KILL "${pids[@]}" 2>/dev/null || true
    sleep 0.1
  done
}

host::cgroup_remove() {
  local deadline=$((SECONDS + 10)) roots
  while mapfile -t roots < <(host::cgroup_roots); (( ${#roots[@]} > 0 )); do
    find "${roots[@]}" -depth -type d -exec rmdir {} + 2>/dev/null || true
    (( SECONDS < deadline )) || return 1
    sleep 0.05
  done
}

# host::mounts prints the mount points in the cluster's directory and in our
# paths elsewhere, the deepest first.
host::mounts() {
  awk -v a="${CLUSTER_DIR}" '$5 == a || index($5, a "/") == 1 || index($5, "/run/dynamic-containers/") == 1 { print $5 }' \
    /proc/self/mountinfo | sort -r
}

host::unmount() {
  local mount
  host::mounts | while read -r mount; do
    mount=$(printf '%b' "${mount}")
    umount "${mount}" 2>/dev/null || umount -l "${mount}" || true
  done
}

# host::chains prints "<command> <table> <chain>" for every iptables chain.
host::chains() {
  local command table
  for command in iptables ip6tables; do
    for table in filter nat mangle; do
      "${command}-save" -t "${table}" 2>/dev/null | sed -n "s/^:\([^ ]*\) .*/${command} ${table} \1/p"
    done
  done
}

# host::our_chains prints the chains that came with the cluster: those of
# kubelet, kube-proxy and this script, and those of CNI plugins that name our
# network. Docker's and others' are never among them.
host::our_chains() {
  {
    host::chains | grep -E ' (KUBE-|DYNAMIC-CONTAINERS)[^ ]*$' || true
    local command table
    for command in iptables ip6tables; do
      for table in filter nat; do
        "${command}-save" -t "${table}" 2>/dev/null |
          sed -n "s/^-A .*name: \\\\\"${NETWORK_NAME}\\\\\".* -j \(CNI-[^ ]*\).*/${command} ${table} \1/p"
      done
    done
    # The chains above the CNI plugins' per-pod chains belong to all networks:
    # ours only if nobody else has rules in them.
    for command in iptables ip6tables; do
      "${command}-save" -t nat 2>/dev/null | awk -v p="${command} nat" -v n="${NETWORK_NAME}" '
        /^:CNI-HOSTPORT-/ { sub(/^:/, "", $1); top[$1] = 1 }
        /^-A CNI-HOSTPORT-DNAT / && !index($0, "name: \\\"" n "\\\"") { foreign = 1 }
        END { if (!foreign) for (c in top) print p, c }'
    done
  } | sort -u | grep -vxF -f "${BEFORE_DIR}/chains" || true
}

# host::remove_chains deletes our chains and all rules that lead into them, one
# transaction for each table.
host::remove_chains() {
  local command table ours
  for command in iptables ip6tables; do
    for table in filter nat mangle; do
      mapfile -t ours < <(host::our_chains | sed -n "s/^${command} ${table} //p")
      (( ${#ours[@]} > 0 )) || continue
      {
        echo "*${table}"
        printf ':%s - [0:0]\n' "${ours[@]}"
        "${command}-save" -t "${table}" 2>/dev/null | awk -v ours="${ours[*]}" '
          BEGIN { split(ours, list, " "); for (i in list) our[list[i]] = 1 }
          /^-A / && !($2 in our) {
            for (i = 3; i < NF; i++) if ($i == "-j" && ($(i+1) in our)) { sub(/^-A/, "-D"); print; break }
          }'
        printf -- '-X %s\n' "${ours[@]}"
        echo COMMIT
      } | "${command}-restore" --noflush 2>/dev/null || return 1
    done
  done
}

# host::nft_tables prints the nftables tables that kube-proxy made.
host::nft_tables() {
  if command -v nft >/dev/null; then
    nft list tables 2>/dev/null | grep -x 'table ip6\? kube-proxy' | grep -vxF -f "${BEFORE_DIR}/nft" || true
  fi
}

# host::interfaces prints the host ends of our pods' interfaces, which all
# carry the address of the pods' gateway.
host::interfaces() {
  ip -4 -o addr show to "$(host::first_address "${CLUSTER_CIDR}")/32" 2>/dev/null | awk '{ print $2 }'
}

# host::cni_results prints what libcni keeps about the networks of our pods,
# the loopback network among them.
host::cni_results() {
  grep -lsF "\"netns\":\"${CLUSTER_DIR}/" /var/lib/cni/results/* || true
}

# host::first_address prints the first usable address of an IPv4 range.
host::first_address() {
  local network=${1%/*}
  echo "${network%.*}.$((${network##*.} + 1))"
}

# host::network sets up what lets pods talk to each other, to the world and,
# through the address of the "kubernetes" service, to the API server, which
# listens on loopback only.
host::network() {
  local service
  service="-d $(host::first_address "${SERVICE_CLUSTER_IP_RANGE}")/32 -p tcp --dport 443"
  echo 1 >/proc/sys/net/ipv4/ip_forward
  echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet
  iptables-restore --noflush <<END || log::die "iptables-restore failed"
*filter
:DYNAMIC-CONTAINERS - [0:0]
-A DYNAMIC-CONTAINERS -s ${CLUSTER_CIDR} -j ACCEPT
-A DYNAMIC-CONTAINERS -d ${CLUSTER_CIDR} -j ACCEPT
-A FORWARD -j DYNAMIC-CONTAINERS
COMMIT
*nat
:DYNAMIC-CONTAINERS-API - [0:0]
:DYNAMIC-CONTAINERS-POST - [0:0]
-A DYNAMIC-CONTAINERS-API ${service} -j DNAT --to-destination 127.0.0.1:${API_SECURE_PORT}
-A DYNAMIC-CONTAINERS-POST -s ${CLUSTER_CIDR} ! -d ${CLUSTER_CIDR} -j MASQUERADE
-A PREROUTING -j DYNAMIC-CONTAINERS-API
-A OUTPUT -j DYNAMIC-CONTAINERS-API
-A POSTROUTING -j DYNAMIC-CONTAINERS-POST
COMMIT
END
}

# host::remember records what is on the machine before the cluster.
host::remember() {
  local path name
  mkdir -p "${BEFORE_DIR}"
  host::chains >"${BEFORE_DIR}/chains"
  nft list tables >"${BEFORE_DIR}/nft" 2>/dev/null || true
  : >"${BEFORE_DIR}/sysctls"
  for name in "${HOST_SYSCTLS[@]}"; do
    if [[ -f /proc/sys/${name} ]]; then
      echo "${name} $(<"/proc/sys/${name}")" >>"${BEFORE_DIR}/sysctls"
    fi
  done
  : >"${BEFORE_DIR}/absent"
  for path in "${HOST_PATHS[@]}"; do
    if [[ ! -e ${path} ]]; then
      echo "${path}" >>"${BEFORE_DIR}/absent"
    fi
  done
  cat /proc/sys/kernel/random/boot_id >"${BEFORE_DIR}/boot_id"
}

host::prepare() {
  host::cgroup_create
  host::network
  # Pods with mount propagation need the kubelet's directory on a shared mount.
  mkdir -p "${KUBELET_DIR}"
  mount --bind "${KUBELET_DIR}" "${KUBELET_DIR}"
  mount --make-rshared "${KUBELET_DIR}"
}

# host::clean takes back everything, from any state. What it cannot remove,
# host::leftovers reports.
host::clean() {
  local table interface name value path
  host::cgroup_kill || true
  host::unmount
  while read -r interface; do
    ip link delete "${interface}" 2>/dev/null || true
  done < <(host::interfaces)
  host::cgroup_remove || true
  [[ -d ${BEFORE_DIR} ]] || return 0
  host::remove_chains || true
  while read -r table; do
    # shellcheck disable=SC2086 # Two words.
    nft delete ${table} || true
  done < <(host::nft_tables)
  host::cni_results | xargs -r rm -f
  while read -r path; do
    case "${path}" in
      # Somebody else may have begun to use these since.
      /var/lib/cni|/var/run/netns) find "${path}" -depth -type d -empty -delete 2>/dev/null || true ;;
      *) rm -rf --one-file-system "${path}" ;;
    esac
  done <"${BEFORE_DIR}/absent"
  find /var/log/containers -maxdepth 1 -lname "${CLUSTER_DIR}/*" -delete 2>/dev/null || true
  if [[ $(<"${BEFORE_DIR}/boot_id") == "$(</proc/sys/kernel/random/boot_id)" ]]; then
    while read -r name value; do
      if [[ $(<"/proc/sys/${name}") != "${value}" ]]; then
        echo "${value}" >"/proc/sys/${name}" || true
      fi
    done <"${BEFORE_DIR}/sysctls"
  fi
}

# host::leftovers lists what of the cluster is on the machine, one line each.
host::leftovers() {
  host::cgroup_pids | sed 's/^/process /'
  host::mounts | sed 's/^/mount /'
  host::interfaces | sed 's/^/interface /'
  host::cgroup_roots | sed 's/^/cgroup /'
  [[ -d ${BEFORE_DIR} ]] || return 0
  host::our_chains | sed 's/^/chain /'
  host::nft_tables | sed 's/^/nft /'
  host::cni_results | sed 's/^/path /'
  local path
  while read -r path; do
    if [[ ${path} != /var/lib/cni && ${path} != /var/run/netns && -e ${path} ]]; then
      echo "path ${path}"
    fi
  done <"${BEFORE_DIR}/absent"
}

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

# Daemons of the local cluster: each has <name>.pid and <name>.start (its start
# time as the kernel counts it) in RUN_DIR, so that a process id which was used
# again for something else is never signalled. To be sourced.

# daemon::start_time prints the start time of process $1, nothing if it is gone
# or only a zombie.
daemon::start_time() {
  local stat
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
  # Fields are counted after the command's closing parenthesis: the command may
  # contain spaces.
  local fields
  read -ra fields <<<"${stat##*) }"
  if [[ ${fields[0]} != Z ]]; then
    printf '%s' "${fields[19]}"
  fi
}

# daemon::pid prints the process id of daemon $1 if it runs, else fails.
daemon::pid() {
  local pid
  [[ -s ${RUN_DIR}/$1.pid && -s ${RUN_DIR}/$1.start ]] || return 1
  pid=$(<"${RUN_DIR}/$1.pid")
  [[ $(daemon::start_time "${pid}") == "$(<"${RUN_DIR}/$1.start")" ]] || return 1
  printf '%s' "${pid}"
}

# daemon::start runs a command as daemon $1, with its output appended to the
# daemon's log.
daemon::start() {
  local name=$1 pid
  shift
  printf '%s\n' "--- $(date -u +%FT%TZ) $*" >>"${LOG_DIR}/${name}.log"
  (
    echo "${BASHPID}" >"${DAEMONS_CGROUP}/cgroup.procs"
    # The lock must not outlive this script.
    exec setsid "$@" </dev/null >>"${LOG_DIR}/${name}.log" 2>&1 9>&-
  ) &
  pid=$!
  disown "${pid}"
  daemon::start_time "${pid}" >"${RUN_DIR}/${name}.start"
  echo "${pid}" >"${RUN_DIR}/${name}.pid"
}

# daemon::stop ends the named daemons together: SIGTERM, after ten seconds
# SIGKILL. Those that do not run are skipped.
daemon::stop() {
  local name pid deadline=$((SECONDS + 10)) signal=TERM waiting
  for name in "$@"; do
    if pid=$(daemon::pid "${name}"); then
      kill -TERM "${pid}" 2>/dev/null || true
    fi
  done
  while :; do
    waiting=()
    for name in "$@"; do
      if pid=$(daemon::pid "${name}"); then
        waiting+=("${name}")
        if [[ ${signal} == KILL ]]; then
          kill -KILL "${pid}" 2>/dev/null || true
        fi
      fi
    done
    (( ${#waiting[@]} > 0 )) || break
    if (( SECONDS > deadline + 10 )); then
      log::die "these do not end even after SIGKILL: ${waiting[*]}"
    fi
    if [[ ${signal} == TERM ]] && (( SECONDS > deadline )); then
      log::warn "killing ${waiting[*]}: still running ten seconds after SIGTERM"
      signal=KILL
    fi
    sleep 0.1
  done
  for name in "$@"; do
    rm -f "${RUN_DIR}/${name}.pid" "${RUN_DIR}/${name}.start"
  done
}

# daemon::wait waits until the command succeeds: daemon::wait <daemon> <seconds>
# <what is waited for> <command...>. If the daemon dies or the time is over, the
# end of its log is shown and the script ends.
daemon::wait() {
  local name=$1 limit=$2 what=$3 start=${SECONDS} shown=${SECONDS} reason=
  shift 3
  until "$@" >/dev/null 2>&1; do
    if ! daemon::pid "${name}" >/dev/null; then
      reason="${name} ended"
    elif (( SECONDS - start > limit )); then
      reason="no ${what} within ${limit} seconds"
    fi
    if [[ -n ${reason} ]]; then
      echo "--- the end of ${LOG_DIR}/${name}.log:" >&2
      tail -n 20 "${LOG_DIR}/${name}.log" >&2
      log::die "${reason}; the whole log is in ${LOG_DIR}/${name}.log"
    fi
    if (( SECONDS - shown >= 5 )); then
      log::step "  ... still waiting for ${what}"
      shown=${SECONDS}
    fi
    sleep 0.1
  done
}

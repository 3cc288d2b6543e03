# shellcheck shell=bash disable=SC2154 # `patience` and `stop_signal` come from the server's part
# The server's process. The pid file holds the pid and when that process was born, in clock ticks since
# boot, so that another process that got the same number later is never taken for ours.

# Prints "STATE BORN" of a process.
process_stat() {
    local stat
    read -r stat 2>/dev/null <"/proc/$1/stat" || return
    stat=${stat##*) }
    # shellcheck disable=SC2086 # one word for each field
    set -- $stat
    printf '%s %s\n' "$1" "${20}"
}

# True if the process still is the one that was born then. A zombie is gone, unless threads of it are still ending: until
# then they have its ports and files.
is_process() {
    local state="" born=""
    read -r state born < <(process_stat "$1")
    [[ -n $2 && $born == "$2" ]] && { [[ $state != [ZX] ]] || has_threads "$1"; }
}

# True for a process with more threads than one.
has_threads() {
    local threads=("/proc/$1/task/"*)
    ((${#threads[@]} > 1))
}

owner_pid() {
    local pid born
    read -r pid born 2>/dev/null <"$DIR/pid" && printf '%s' "$pid"
}

alive() {
    local pid born
    read -r pid born 2>/dev/null <"$DIR/pid" && is_process "$pid" "$born"
}

# The pid is written by the server's process itself before it becomes the server: whenever we are killed,
# there is no server without its pid file.
start() {
    rm -f "$DIR/pid"
    (
        exec 9>&-
        cd "$DIR" || exit
        # Taken first: in the substitution below, BASHPID is another.
        pid=$BASHPID
        read -r _ born < <(process_stat "$pid")
        printf '%s %s\n' "$pid" "$born" >"$DIR/pid"
        serve
    ) </dev/null >>"$DIR/log" 2>&1 &
}

# In a session of its own, a server does not get the terminal's Ctrl-C.
become_server() {
    become setsid "$@"
}

wait_for_answer() {
    local until=$((SECONDS + patience)) born_by=$((SECONDS + 5))
    until answers; do
        # In this order: it may be written between the two.
        if { [[ -s $DIR/pid ]] || ((SECONDS > born_by)); } && ! alive; then
            fail_with_log "\`$INSTANCE\` ended before it answered"
        fi
        if ((SECONDS > until)); then
            kill_family
            fail_with_log "\`$INSTANCE\` did not answer on port $PORT within $patience seconds"
        fi
        sleep 0.1
    done
}

fail_with_log() {
    complain "$1; the end of \`$DIR/log\`:"
    tail -n 15 "$DIR/log" | sed 's/^/    /' >&2
    die "\`scripts/services down --purge $INSTANCE\` deletes its data, if these are the cause"
}

# Prints what the server started and leaves behind; of most that is nothing.
strays() { :; }

# A clean stop; after half a minute a hard one.
stop() {
    local pid born until=$((SECONDS + 30))
    read -r pid born <"$DIR/pid"
    kill -s "$stop_signal" "$pid"
    while is_process "$pid" "$born"; do
        if ((SECONDS > until)); then
            complain "\`$INSTANCE\` did not stop within 30 seconds and is killed"
            kill_family
            return
        fi
        sleep 0.05
    done
    end_strays
}

# Prints a process and all its descendants.
family() {
    local child
    printf '%s\n' "$1"
    # shellcheck disable=SC2013 # one word for each pid
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
        family "$child"
    done
}

# SIGKILL for the server and all its processes. Halted first, it cannot start another one meanwhile.
kill_family() {
    local pid
    pid=$(owner_pid)
    kill -s STOP "$pid"
    # shellcheck disable=SC2046 # one word for each pid
    end $(family "$pid")
    end_strays
}

# They would keep the ports of a server that is gone, also of one that died by itself.
end_strays() {
    # shellcheck disable=SC2046 # one word for each pid
    end $(strays)
}

# SIGKILL for processes; waits until they are gone.
end() {
    (($# > 0)) || return 0
    local members member state born
    members=$(for member in "$@"; do
        read -r state born < <(process_stat "$member") && echo "$member $born"
    done)
    kill -s KILL "$@" 2>/dev/null
    while read -r member born; do
        while is_process "$member" "$born"; do sleep 0.02; done
    done <<<"$members"
}

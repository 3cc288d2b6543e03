# shellcheck shell=bash disable=SC2154 # `default_port` and `ports` come from the server's part
# Which port an instance listens on. It is written down beside the data, so that a server is found again.

# The port of a server that runs, or that it would get. An extra instance keeps the port that it got once.
known_port() {
    if [[ -s $DIR/port ]] && { [[ $INSTANCE == *@* ]] || alive; }; then
        cat "$DIR/port"
    elif [[ $INSTANCE != *@* ]]; then
        wanted_port
    fi
}

wanted_port() {
    local override
    override=$(port_variable)
    printf '%s' "${!override:-$default_port}"
}

port_variable() {
    printf 'PILLARBOX_%s_PORT' "$(printf '%s' "$KIND" | tr '[:lower:]' '[:upper:]')"
}

# Prints the port to start on, after a look whether it is free.
choose_port() {
    if [[ -z $PORT ]]; then
        lock_ports_and_find
        return
    fi
    if [[ ! $PORT =~ ^[0-9]{1,5}$ ]] || ((PORT < 1 || PORT + ports > 65536)); then
        die "\`$PORT\` is no port for \`$INSTANCE\`; correct $(port_variable)"
    fi
    local port
    for ((port = PORT; port < PORT + ports; port++)); do
        taken "$port" && die_of_taken_port "$port"
    done
    printf '%s' "$PORT" | tee "$DIR/port"
}

taken() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

die_of_taken_port() {
    local holder remedy
    remedy="set $(port_variable) to another port"
    holder=$(ss -Hltnp "sport = :$1" 2>/dev/null | sed -nE 's/.*users:\(\(("[^"]*",pid=[0-9]+).*/ (\1)/p' | head -n 1)
    [[ $INSTANCE == *@* ]] && remedy="\`scripts/services down $INSTANCE\` gives it up, with its data"
    die "port $1, which \`$INSTANCE\` needs, is taken by a server$holder that this script did not start;" \
        "it is left alone. End it if it is yours, or $remedy"
}

# Finds free ports below those that the system hands out by itself. The lock ends with the subshell.
lock_ports_and_find() (
    exec 9>&-
    lock ports
    local tries port offset
    for ((tries = 0; tries < 200; tries++)); do
        port=$((20000 + RANDOM % 10000))
        for ((offset = 0; offset < ports; offset++)); do
            if reserved $((port + offset)) || taken $((port + offset)); then continue 2; fi
        done
        printf '%s' "$port" | tee "$DIR/port"
        return
    done
    die "no free port found between 20000 and 30000"
)

# True for a port of another instance, which may not have started on it yet. None needs more than four.
reserved() {
    local file first
    for file in "$SERVICES"/*/port; do
        first=$(cat "$file" 2>/dev/null) || continue
        [[ $file != "$DIR/port" ]] && (($1 >= first && $1 < first + 4)) && return
    done
    return 1
}

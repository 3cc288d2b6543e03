# shellcheck shell=bash disable=SC2034
# RabbitMQ from Debian's packages. Erlang's distribution and its port mapper have the next two ports.

variable=PILLARBOX_TEST_AMQP_URL
default_port=15673
account=rabbitmq
ports=3
patience=300

# The program in sbin becomes the user `rabbitmq` by itself and takes no environment; this one does.
SERVER=/usr/lib/rabbitmq/bin/rabbitmq-server

install_server() {
    have "$SERVER" epmd || install_packages rabbitmq-server
}

url() {
    printf 'amqp://pillarbox:%s@127.0.0.1:%s/%%2f' "$SECRET" "$PORT"
}

prepare() {
    [[ -d $DIR/data ]] || make_data "$DIR/data"
    echo '[].' >"$DIR/enabled_plugins"
    confide "$DIR/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$PORT
default_user = pillarbox
default_pass = $SECRET
log.console = true
log.console.level = warning
log.file = false
CONF
}

# As under systemd, no shell stays in front of the server. The port mapper, which Erlang would start as a daemon
# of its own if it found none, ends with its parent, the server.
serve() {
    export ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((PORT + 2))
    (become setpriv --pdeathsig KILL epmd) &
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        taken $((PORT + 2)) && break
        sleep 0.05
    done
    become_server env RUNNING_UNDER_SYSTEMD=yes \
        RABBITMQ_NODENAME=pillarbox@localhost \
        RABBITMQ_DIST_PORT=$((PORT + 1)) \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' \
        RABBITMQ_CONF_ENV_FILE=/dev/null \
        RABBITMQ_CONFIG_FILE="$DIR/rabbitmq.conf" \
        RABBITMQ_ENABLED_PLUGINS_FILE="$DIR/enabled_plugins" \
        RABBITMQ_MNESIA_BASE="$DIR/data/mnesia" \
        RABBITMQ_LOG_BASE="$DIR/data" \
        RABBITMQ_PID_FILE="$DIR/data/server.pid" \
        "$SERVER"
}

# A port mapper that Erlang has started nevertheless, since ours was late or had died: it is nobody's child.
strays() {
    local pid
    for pid in $(pgrep -x epmd); do
        grep -zqxF "HOME=$DIR/data" "/proc/$pid/environ" 2>/dev/null && echo "$pid"
    done
}

# Begins to speak AMQP; the server answers with a frame of type 1, `connection.start`.
answers() (
    exec 3<>"/dev/tcp/127.0.0.1/$PORT" || return
    printf 'AMQP\0\0\11\1' >&3
    [[ $(timeout 5 head -c 11 <&3 | od -An -tx1 | tr -d ' \n') == 010000????????000a000a ]]
) 2>/dev/null

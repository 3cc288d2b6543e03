# shellcheck shell=bash disable=SC2034
# NATS with JetStream from Debian's packages.

variable=PILLARBOX_TEST_NATS_URL
default_port=14222
account=nobody

install_server() {
    have nats-server || install_packages nats-server
}

url() {
    printf 'nats://pillarbox:%s@127.0.0.1:%s' "$SECRET" "$PORT"
}

prepare() {
    [[ -d $DIR/data ]] || make_data "$DIR/data"
    confide "$DIR/nats.conf" <<CONF
listen: "127.0.0.1:$PORT"
authorization { user: "pillarbox", password: "$SECRET" }
jetstream { store_dir: "$DIR/data" }
CONF
}

serve() {
    become_server "$(command -v nats-server)" -c "$DIR/nats.conf"
}

# Asks JetStream for its state, which is more than that the port is open.
answers() (
    exec 3<>"/dev/tcp/127.0.0.1/$PORT" || return
    printf '%s\r\n' "CONNECT {\"verbose\":false,\"user\":\"pillarbox\",\"pass\":\"$SECRET\"}" \
        'SUB ready 1' "PUB \$JS.API.INFO ready 0" '' >&3
    while read -r -t 5 line <&3; do
        [[ $line == *'"type":"io.nats.jetstream.api.v1.account_info_response"'*'"limits"'* ]] && return
    done
    return 1
) 2>/dev/null

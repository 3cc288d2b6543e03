# shellcheck shell=bash disable=SC2034
# Redis from Debian's packages. What it has acknowledged is on disk.

variable=PILLARBOX_TEST_REDIS_URL
default_port=16379
account=redis

install_server() {
    have redis-server redis-cli || install_packages redis-server
}

url() {
    printf 'redis://:%s@127.0.0.1:%s/0' "$SECRET" "$PORT"
}

prepare() {
    [[ -d $DIR/data ]] || make_data "$DIR/data"
    confide "$DIR/redis.conf" <<CONF
bind 127.0.0.1
port $PORT
requirepass $SECRET
dir "$DIR/data"
appendonly yes
appendfsync always
save ""
CONF
}

serve() {
    become_server "$(command -v redis-server)" "$DIR/redis.conf"
}

answers() {
    [[ $(REDISCLI_AUTH=$SECRET redis-cli -p "$PORT" PING 2>/dev/null) == PONG ]]
}

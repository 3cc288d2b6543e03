# shellcheck shell=bash disable=SC2034
# PgBouncer from Debian's packages, in transaction mode in front of our own `postgres`.

variable=PILLARBOX_TEST_PGBOUNCER_URL
default_port=16432
account=postgres
needs=postgres

install_server() {
    have pgbouncer psql || install_packages pgbouncer postgresql-client
}

url() {
    printf 'postgres://pillarbox:%s@127.0.0.1:%s/pillarbox_test' "$SECRET" "$PORT"
}

# A pool that is smaller than what tests open, so that connections are shared. Idle ones are given back
# soon: they would keep a test from dropping its database.
prepare() {
    confide "$DIR/users" <<<"\"pillarbox\" \"$SECRET\""
    cat >"$DIR/pgbouncer.ini" <<CONF
[databases]
* = host=127.0.0.1 port=$(cat "$SERVICES/postgres/port")

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $PORT
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $DIR/users
admin_users = pillarbox
pool_mode = transaction
max_client_conn = 400
default_pool_size = 5
server_idle_timeout = 10
CONF
}

serve() {
    become_server "$(command -v pgbouncer)" "$DIR/pgbouncer.ini"
}

answers() {
    PGPASSWORD=$SECRET PGCONNECT_TIMEOUT=5 psql --no-psqlrc -qAt \
        -h 127.0.0.1 -p "$PORT" -U pillarbox -d pillarbox_test -c 'SELECT 1' >/dev/null 2>&1
}

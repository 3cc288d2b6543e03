# shellcheck shell=bash disable=SC2034
# PostgreSQL from Debian's packages; version 15 where there is one.

variable=PILLARBOX_TEST_POSTGRES_URL
default_port=15432
account=postgres
# SIGTERM would wait for the clients to go.
stop_signal=INT

# Directories of programs: the server's, and that of psql.
server_programs() {
    client_programs
}

client_programs() {
    local dir
    for dir in /usr/lib/postgresql/15/bin $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV); do
        if [[ -x $dir/initdb ]]; then
            printf '%s' "$dir"
            return
        fi
    done
    return 1
}

install_server() {
    client_programs >/dev/null || install_packages "$(first_package postgresql-15 postgresql)"
}

url() {
    printf 'postgres://pillarbox:%s@127.0.0.1:%s/pillarbox_test' "$SECRET" "$PORT"
}

prepare() {
    local programs
    programs=$(server_programs) || return
    give_certificate
    write_settings
    if [[ -d $DIR/data ]]; then
        forget_dead_server
    else
        make_cluster "$programs"
    fi
}

# A server that was killed looks alive to PostgreSQL until somebody collects the dead process, which in a
# container without an init is never. Its lock file goes when nothing runs in the data directory any more:
# that of processes that outlive their server for a moment is what keeps the data whole.
forget_dead_server() {
    local until=$((SECONDS + 30))
    [[ -e $DIR/data/postmaster.pid ]] || return 0
    # `find` fails over processes that others own or that are gone, so that only what it prints counts.
    while [[ -n $(find /proc -maxdepth 2 -name cwd -lname "$DIR/data" 2>/dev/null) ]]; do
        ((SECONDS < until)) || die "processes of a server that died are still in \`$DIR/data\`; end them"
        sleep 0.1
    done
    rm "$DIR/data/postmaster.pid"
}

# Under another name until it is complete: a cluster that is there can be used.
make_cluster() {
    local programs=$1
    make_data "$DIR/data.new"
    confide "$DIR/pwfile" <<<"$SECRET"
    as_account "$programs/initdb" --pgdata="$DIR/data.new" --username=pillarbox --pwfile="$DIR/pwfile" \
        --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --no-sync || return
    confide "$DIR/setup.sql" <<SQL
CREATE DATABASE pillarbox_test;
CREATE ROLE pillarbox_tls LOGIN PASSWORD '$SECRET';
SQL
    as_account "$programs/postgres" --single -F -c exit_on_error=on -D "$DIR/data.new" postgres <"$DIR/setup.sql" || return
    rm -f "$DIR/pwfile" "$DIR/setup.sql"
    mv "$DIR/data.new" "$DIR/data"
}

# Durable as in production, with room for many tests at once, also for those that prepare transactions. `pillarbox_tls` is
# refused without TLS.
write_settings() {
    cat >"$DIR/pg_hba.conf" <<HBA
hostnossl all         pillarbox_tls 127.0.0.1/32 reject
host      all         all           127.0.0.1/32 scram-sha-256
host      replication all           127.0.0.1/32 scram-sha-256
HBA
    cat >"$DIR/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $PORT
unix_socket_directories = ''
hba_file = '$DIR/pg_hba.conf'
max_connections = 400
shared_buffers = 128MB
fsync = on
synchronous_commit = on
wal_level = logical
max_prepared_transactions = 64
password_encryption = scram-sha-256
ssl = on
ssl_cert_file = '$DIR/cert.pem'
ssl_key_file = '$DIR/key.pem'
log_line_prefix = '%m [%p] %u@%d '
CONF
}

serve() {
    become_server "$(server_programs)/postgres" -D "$DIR/data" -c config_file="$DIR/postgresql.conf"
}

answers() {
    PGPASSWORD=$SECRET PGCONNECT_TIMEOUT=5 "$(client_programs)/psql" --no-psqlrc -qAt \
        -h 127.0.0.1 -p "$PORT" -U pillarbox -d pillarbox_test -c 'SELECT 1' >/dev/null 2>&1
}

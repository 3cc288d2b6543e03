# shellcheck shell=bash disable=SC2034
# MariaDB from Debian's packages.

variable=PILLARBOX_TEST_MYSQL_URL
default_port=13306
account=mysql

install_server() {
    have mariadbd mariadb-install-db mariadb || install_packages mariadb-server
}

url() {
    printf 'mysql://pillarbox:%s@127.0.0.1:%s/pillarbox_test' "$SECRET" "$PORT"
}

prepare() {
    give_certificate
    write_settings
    write_setup
    # Of its own: a server that starts deletes the temporary tables of all others in its directory for them.
    make_data "$DIR/tmp"
    [[ -d $DIR/data ]] || make_database
}

# Under another name until it is complete: a database that is there can be used.
make_database() {
    make_data "$DIR/data.new"
    as_account mariadb-install-db --no-defaults --datadir="$DIR/data.new" --tmpdir="$DIR/tmp" \
        --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve || return
    mv "$DIR/data.new" "$DIR/data"
}

# Durable as in production, with room for many tests at once. The isolation level is the server's default,
# REPEATABLE READ. A relative socket lies in the data directory, however long the path to it is.
write_settings() {
    cat >"$DIR/my.cnf" <<CONF
[mariadbd]
datadir = $DIR/data
tmpdir = $DIR/tmp
bind-address = 127.0.0.1
port = $PORT
socket = mariadb.sock
pid-file = mariadb.pid
init-file = $DIR/setup.sql
skip-name-resolve
character-set-server = utf8mb4
collation-server = utf8mb4_general_ci
max_connections = 400
local-infile = 0
innodb_buffer_pool_size = 128M
innodb_flush_log_at_trx_commit = 1
server-id = 1
log-bin = binlog
binlog_format = ROW
sync_binlog = 1
max_binlog_size = 64M
binlog_expire_logs_seconds = 3600
ssl-cert = $DIR/cert.pem
ssl-key = $DIR/key.pem
CONF
}

# Run by the server at each start before it listens; one line for each statement. `pillarbox_tls` is
# refused without TLS. Root, who has no password, is left with the socket in the
# data directory.
write_setup() {
    confide "$DIR/setup.sql" <<SQL
DROP USER IF EXISTS 'root'@'127.0.0.1', 'root'@'::1';
CREATE DATABASE IF NOT EXISTS pillarbox_test;
CREATE USER IF NOT EXISTS 'pillarbox'@'%' IDENTIFIED BY '$SECRET';
GRANT ALL ON *.* TO 'pillarbox'@'%' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'pillarbox_tls'@'%' IDENTIFIED BY '$SECRET' REQUIRE SSL;
GRANT ALL ON pillarbox_test.* TO 'pillarbox_tls'@'%';
SQL
}

serve() {
    become_server "$(command -v mariadbd)" --defaults-file="$DIR/my.cnf"
}

answers() {
    MYSQL_PWD=$SECRET mariadb --no-defaults --connect-timeout=5 \
        -h 127.0.0.1 -P "$PORT" -u pillarbox -e 'SELECT 1' pillarbox_test >/dev/null 2>&1
}

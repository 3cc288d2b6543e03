# shellcheck shell=bash disable=SC2034
# PostgreSQL 18 from Maven Central, where its programs are packed for embedding; psql is Debian's.

# shellcheck source=scripts/services.d/postgres.sh
source "$PARTS/postgres.sh"

POSTGRES18=18.6.0
variable=PILLARBOX_TEST_POSTGRES18_URL
default_port=15433

server_programs() {
    printf '%s' "$SERVICES/downloads/postgres-$POSTGRES18/bin"
}

install_server() {
    client_programs >/dev/null || install_packages "$(first_package postgresql-15 postgresql)"
    download "postgres-$POSTGRES18" fetch_postgres18
}

fetch_postgres18() {
    local machine
    case $(uname -m) in
        x86_64) machine=amd64 ;;
        aarch64) machine=arm64v8 ;;
        *) die "PostgreSQL 18 is not packed for \`$(uname -m)\`; name a server of your own by $variable" ;;
    esac
    have unzip xz || install_packages unzip xz-utils
    maven copy -DoutputDirectory="$1/jar" \
        -Dartifact="io.zonky.test.postgres:embedded-postgres-binaries-linux-$machine:$POSTGRES18"
    unzip -q "$1"/jar/*.jar '*.txz' -d "$1/jar" && tar -xJf "$1"/jar/*.txz -C "$1" && rm -r "$1/jar"
}

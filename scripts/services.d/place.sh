# shellcheck shell=bash disable=SC2154 # `account` comes from the server's part
# Where the instances live, and what they share: the password and the certificate.

# Settings of the user's own clients must not lead ours elsewhere.
unset "${!PG@}" "${!MYSQL_@}"
export LC_ALL=C.UTF-8
umask 022
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

is_root() {
    ((EUID == 0))
}

# Sets SERVICES. Servers that refuse root run under accounts of their own and must be able to get there.
find_place() {
    local target=${CARGO_TARGET_DIR:-target}
    [[ $target == /* ]] || target=$PROJECT/$target
    SERVICES=${PILLARBOX_SERVICES_DIR:-$target/services}
    if [[ $SERVICES != /* ]]; then
        SERVICES=$PROJECT/$SERVICES
    fi
    if ! is_root || open_to_others "$SERVICES"; then
        return
    fi
    if [[ -n ${PILLARBOX_SERVICES_DIR:-} ]]; then
        die "servers do not run as root, and other accounts cannot reach \`$SERVICES\`; choose another PILLARBOX_SERVICES_DIR"
    fi
    SERVICES=/var/tmp/pillarbox-services-$(printf '%s' "$target" | cksum | cut -d' ' -f1)
    if [[ -L $SERVICES ]] || [[ -e $SERVICES && ! -O $SERVICES ]]; then
        die "\`$SERVICES\` was laid there by somebody else; choose a place by PILLARBOX_SERVICES_DIR"
    fi
}

open_to_others() {
    local dir=$1
    while [[ ! -e $dir ]]; do dir=$(dirname "$dir"); done
    setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$dir"
}

make_place() {
    if [[ $SERVICES == /var/tmp/* && -z ${PILLARBOX_SERVICES_DIR:-} ]]; then
        say "servers do not run as root, and other accounts cannot reach the target directory: they live in $SERVICES"
    fi
    mkdir -p "$SERVICES/locks" 2>/dev/null
    if [[ ! -O $SERVICES || ! -w $SERVICES/locks ]]; then
        die "\`$SERVICES\` belongs to another user; go on as that one, or choose another PILLARBOX_SERVICES_DIR"
    fi
    (lock shared && make_password) || exit
}

# A password of its own for each place: on a shared machine a superuser that all know is a way in.
make_password() {
    local file=$SERVICES/password
    [[ -s $file ]] && return
    (umask 077 && od -An -N12 -tx1 /dev/urandom | tr -d ' \n' >"$file.new") && mv "$file.new" "$file"
}

# Gives the instance a copy of the certificate that all share.
give_certificate() {
    (lock shared && make_certificate) || exit
    confide "$DIR/key.pem" <"$SERVICES/tls/key.pem"
    confide "$DIR/cert.pem" <"$SERVICES/tls/cert.pem"
}

make_certificate() {
    local dir=$SERVICES/tls
    [[ -d $dir ]] && return
    have openssl || install_packages openssl
    rm -rf "$dir.new"
    (umask 077 && mkdir "$dir.new") || return
    if ! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
        -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -keyout "$dir.new/key.pem" -out "$dir.new/cert.pem" 2>"$dir.new/log"; then
        die "openssl made no certificate: $(tail -n 3 "$dir.new/log")"
    fi
    mv "$dir.new" "$dir"
}

# Holds a lock until the (sub)shell ends.
lock() {
    exec 9>"$SERVICES/locks/$1" || die "cannot lock \`$1\`; does \`$SERVICES\` belong to another user?"
    flock -w 600 9 || die "\`$1\` has been locked for ten minutes by another scripts/services"
}

# The directory belongs to us; only `data` in it belongs to the server's account.
make_directory() {
    mkdir -p "$DIR" || exit
    if [[ -n $(find "$DIR/log" -size +20M 2>/dev/null) ]]; then mv "$DIR/log" "$DIR/log.old"; fi
    (umask 077 && : >>"$DIR/log") || exit
    if [[ -n $account ]] && is_root && ! id "$account" >/dev/null 2>&1; then
        die "there is no account \`$account\` for \`$INSTANCE\`, which its package makes; servers do not run as root"
    fi
}

# Makes a directory that the server may write to.
make_data() {
    rm -rf "$1"
    (umask 077 && mkdir "$1") || exit
    if [[ -n $account ]] && is_root; then chown "$account:" "$1"; fi
}

# Writes standard input to a file that only we and the server can read.
confide() {
    (umask 077 && cat >"$1") || exit
    if [[ -n $account ]] && is_root; then
        chgrp "$(id -gn "$account")" "$1" && chmod 640 "$1"
    fi
}

# Replaces the (sub)shell by a command under the server's account. The pid stays the same.
become() {
    if [[ -n $account ]] && is_root; then
        exec setpriv --reuid="$account" --regid="$(id -g "$account")" --init-groups -- env HOME="$DIR/data" "$@"
    fi
    exec env HOME="$DIR/data" "$@"
}

# Runs a command under the server's account, its output in the server's log.
as_account() {
    (cd "$DIR" && become "$@") >>"$DIR/log" 2>&1
}

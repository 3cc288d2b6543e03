# shellcheck shell=bash disable=SC2034
# What tests read back with, and no server: kcat, promtool, and clients in Python in an environment of their
# own, whose interpreter the variable names. They are there or not; only `down --purge` deletes the environment.

variable=PILLARBOX_TEST_PYTHON
default_port=""
DIR=$SERVICES/python
CLIENTS=$PARTS/python.txt

url() {
    printf '%s/bin/python' "$DIR"
}

up() {
    have kcat || install_packages kcat
    have promtool || install_packages prometheus
    if given; then
        say "the Python of tests is given by $variable"
        return
    fi
    lock_instance
    local began=$SECONDS
    if has_clients; then
        say "tools are in $DIR"
        return
    fi
    usable_python >/dev/null || install_packages python3 python3-venv
    install_clients
    say "tools are in $DIR, installed in $((SECONDS - began)) s"
}

# The list is copied into the environment when everything on it is installed.
has_clients() {
    [[ -x $(url) ]] && cmp -s "$CLIENTS" "$DIR/clients.txt"
}

# The clients need Python 3.10 or later. Debian's has no `ensurepip` without python3-venv.
usable_python() {
    local python
    for python in "$(command -v python3)" /usr/bin/python3; do
        if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))'; then
            printf '%s' "$python"
            return
        fi
    done 2>/dev/null
    return 1
}

install_clients() {
    say "installing clients in Python"
    if (make_environment) </dev/null >"$SERVICES/python.log" 2>&1 9>&-; then
        return
    fi
    complain "installing the clients failed; the end of \`$SERVICES/python.log\`:"
    tail -n 8 "$SERVICES/python.log" | sed 's/^/    /' >&2
    die "it needs PyPI or a mirror in pip's settings; or name by $variable a Python that has what \`$CLIENTS\` lists"
}

make_environment() {
    rm -rf "$DIR"
    "$(usable_python)" -m venv "$DIR" &&
        "$(url)" -m pip install --disable-pip-version-check --only-binary :all: --requirement "$CLIENTS" &&
        cp "$CLIENTS" "$DIR/clients.txt"
}

halt() {
    die "\`tools\` are no server that could be stopped"
}

murder() {
    die "\`tools\` are no server that could be killed"
}

status() {
    local state=missing where="" there=1
    if given; then
        state=given where=$variable there=0
    elif has_clients; then
        state=there where=$DIR there=0
    fi
    printf '%-20s %-8s %s\n' "$INSTANCE" "$state" "$where"
    return $there
}

environment() {
    if given; then
        printf 'export %s=%q\n' "$variable" "${!variable}"
    elif has_clients; then
        printf 'export %s=%q\n' "$variable" "$(url)"
    else
        complain "\`tools\` are not installed; \`scripts/services up tools\` does that"
        return 1
    fi
}

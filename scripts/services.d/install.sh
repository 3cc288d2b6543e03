# shellcheck shell=bash disable=SC2154 # `variable` comes from the server's part
# What servers need on this machine, from Debian's packages and from Maven Central.

POLICY=/usr/sbin/policy-rc.d
MARK="put here by scripts/services of Pillarbox"

can_serve() {
    [[ -r /proc/self/stat ]] || die "the servers need Linux; \`scripts/test --no-services\` does without them"
    have flock setpriv || die "\`flock\` and \`setpriv\` are missing; they come with the package util-linux"
}

have() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null || return
    done
}

# Runs a command as root. Without a terminal, sudo must not ask.
as_root() {
    if is_root; then
        "$@"
    elif [[ -t 0 ]]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# Prints the first of the packages that there is.
first_package() {
    local package
    for package in "$@"; do
        if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
            printf '%s' "$package"
            return
        fi
    done
    printf '%s' "$1"
}

install_packages() {
    if ! have apt-get; then
        die "$INSTANCE needs the Debian packages \`$*\`, and there is no apt-get here; install them another way," \
            "or name a server of your own by $variable"
    fi
    if ! is_root && ! have sudo; then
        die "$INSTANCE needs the Debian packages \`$*\`; run \`apt-get install $*\` as root, or install sudo"
    fi
    say "installing $*"
    (install_without_starting "$@") >"$SERVICES/install.log" 2>&1 && return
    complain "installing \`$*\` failed; the end of \`$SERVICES/install.log\`:"
    tail -n 8 "$SERVICES/install.log" | sed 's/^/    /' >&2
    die "try \`apt-get update && apt-get install $*\` as root, or name a server of your own by $variable"
}

# Packages start their servers when they are installed, unless policy-rc.d forbids it. One that is there
# already is left alone. The lock is the machine's: no other copy of this script takes the policy away.
install_without_starting() {
    exec 8</usr/bin/apt-get
    flock 8
    if [[ ! -e $POLICY ]] || grep -q "$MARK" "$POLICY"; then
        trap 'as_root rm -f "$POLICY"' EXIT
        trap 'exit 1' INT TERM HUP
        as_root sh -c "printf '#!/bin/sh\n# $MARK\nexit 101\n' >$POLICY && chmod 755 $POLICY" || exit
    fi
    apt_install "$@" || { apt_get update && apt_install "$@"; }
}

apt_install() {
    apt_get install --yes --no-install-recommends "$@"
}

# What a package starts all the same must not inherit our locks.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get --quiet -o DPkg::Lock::Timeout=300 "$@" 8>&- 9>&- </dev/null
}

# Fetches what has no package, once: FETCH fills the directory that it is given, which gets its name when
# it is complete.
download() {
    local dir=$SERVICES/downloads/$1 fetch=$2
    [[ -d $dir ]] && return
    (
        lock downloads
        [[ -d $dir ]] && exit
        say "downloading $1"
        rm -rf "$dir.new" && mkdir -p "$dir.new" || exit
        "$fetch" "$dir.new" || die "\`$1\` could not be unpacked in \`$dir.new\`"
        mv "$dir.new" "$dir"
    ) || exit
}

# Runs a goal of Maven's dependency plugin, with the settings of the user.
maven() {
    local goal=$1
    shift
    have mvn || install_packages maven "$(first_package openjdk-17-jre-headless default-jre-headless)"
    mvn -q -B "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:$goal" "$@" \
        </dev/null >"$SERVICES/maven.log" 2>&1 9>&- && return
    complain "the download for \`$INSTANCE\` failed; the end of \`$SERVICES/maven.log\`:"
    tail -n 8 "$SERVICES/maven.log" | sed 's/^/    /' >&2
    die "it needs Maven Central or a mirror in ~/.m2/settings.xml; or name a server of your own by $variable"
}

# packages.sh - compilers, tools and libraries from the system's package manager.
#
# A package is missing when the thing it brings does not work, whoever brought it; so a compiler or a
# CMake from elsewhere will do.

missing=()       # Debian's package names
missing_words=() # the same for people

need() {
    local package=$1 words=$2
    shift 2
    "$@" >/dev/null 2>&1 && return
    missing+=("$package")
    missing_words+=("$words")
}

missing_text() {
    local text
    text=$(printf ', %s' "${missing_words[@]}")
    printf '%s' "${text:2}"
}

has_cmake() {
    local version
    version=$(cmake --version | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p')
    [ "${version%%.*}" -gt 3 ] || { [ "${version%%.*}" = 3 ] && [ "${version#*.}" -ge 20 ]; }
}

has_header() {
    printf '#include <%s>\n' "$1" | ${CC:-cc} -E -
}

has_venv() {
    python3 -c 'import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 10))'
}

# libFuzzer's runtime: clang says where it would be.
has_fuzzer() {
    [ -e "$(clang -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a)" ] ||
        [ -e "$(clang -print-runtime-dir)/libclang_rt.fuzzer.a" ]
}

# packages_missing STAGE LLAMA: fills missing and missing_words.
packages_missing() {
    missing=()
    missing_words=()
    if [ "$1" != format ]; then
        need gcc "a C compiler" command -v "${CC:-cc}"
        need libc6-dev "the C library's headers" has_header stdio.h
        need cmake "cmake 3.20 or newer" has_cmake
        need ninja-build "ninja" command -v ninja
        need pkg-config "pkg-config" command -v pkg-config
        need libutf8proc-dev "utf8proc" pkg-config --exists libutf8proc
        need libpcre2-dev "PCRE2" pkg-config --exists libpcre2-8
        need libjansson-dev "jansson" pkg-config --exists jansson
        need libmicrohttpd-dev "libmicrohttpd" pkg-config --exists libmicrohttpd
        need libcurl4-openssl-dev "libcurl" pkg-config --exists libcurl
        need libssl-dev "libcrypto" pkg-config --exists libcrypto
        need libedit-dev "libedit" pkg-config --exists libedit
        [ "$2" = 0 ] || need g++ "a C++ compiler" command -v "${CXX:-c++}"
    fi
    case $1 in
    demo | check | format) need python3-venv "python 3.10 or newer with venv" has_venv ;;
    esac
    case $1 in
    check)
        need libcmocka-dev "cmocka" pkg-config --exists cmocka
        need clang "clang" command -v clang
        need curl "curl" command -v curl
        need mandoc "mandoc" command -v mandoc
        ;;
    fuzz)
        need clang "clang" command -v clang
        need "libclang-rt-$(clang_major)-dev" "clang's fuzzer library" has_fuzzer
        ;;
    esac
}

# The version behind the package clang, for the package that carries its run-time libraries.
clang_major() {
    local major=
    if command -v clang >/dev/null; then
        major=$(clang -dumpversion)
    elif command -v apt-cache >/dev/null; then
        major=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    fi
    major=${major%%.*}
    printf '%s' "${major:-14}"
}

# How a person gets what is missing, when this script may not.
packages_hint() {
    if command -v apt-get >/dev/null; then
        say "as root: apt-get update && apt-get install ${missing[*]}"
    else
        say "install them with this system's package manager; Debian calls them: ${missing[*]}"
    fi
}

cannot_install() {
    say "missing: $(missing_text)"
    say "cannot install them here: $1"
    packages_hint
    exit 1
}

packages_install() {
    local root=()
    command -v apt-get >/dev/null || cannot_install "there is no apt-get"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || cannot_install "not root, and there is no sudo"
        root=(sudo)
    fi
    say "will install with ${root[*]:+${root[*]} }apt-get: ${missing[*]}"
    if [ ${#root[@]} -gt 0 ] && [ "${YES:-}" != 1 ]; then
        [ -t 0 ] || cannot_install "sudo needs a yes, and nobody is there to ask (YES=1 says it)"
        read -r -p "set-up: go on? [y/N] " answer
        case $answer in y | Y | yes) ;; *) cannot_install "not wanted" ;; esac
    fi
    apt_install "${root[@]+"${root[@]}"}"
    packages_missing "$stage" "$want_llama"
    [ ${#missing[@]} = 0 ] || die "installed, but still missing: $(missing_text)"
}

# apt_install [sudo]: installs ${missing[@]}. The package lists are fetched first: a fresh machine has
# none, and old ones name files that are gone.
apt_install() {
    local log options=(-y -q --no-install-recommends -o DPkg::Lock::Timeout=300)
    mkdir -p "$work"
    log=$work/apt.log
    say "fetching the package lists"
    "$@" apt-get update -q -o DPkg::Lock::Timeout=300 >"$log" 2>&1 ||
        say "apt-get update failed; going on with the old lists"
    "$@" env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" \
        -o APT::Status-Fd=1 "${missing[@]}" 2>&1 </dev/null 9>&- | progress packages "$log" ||
        die_with_log "$log" "apt-get could not install: ${missing[*]}"
}

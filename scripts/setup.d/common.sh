# common.sh - messages, progress, the cache folder and its lock.

say() {
    printf 'set-up: %s\n' "$*" >&2
}

# Every argument is a line.
die() {
    printf 'set-up: %s\n' "$@" >&2
    exit 1
}

on_terminal() {
    [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]
}

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi | cut -c1-64
}

# progress WHAT LOG: reads a long step's output, keeps it in LOG and shows how far it is: one moving
# line on a terminal, a line every tenth of the way elsewhere. Understands ninja's "[12/83] ..." and
# apt's "dlstatus:1:40.0:..." and "pmstatus:name:40.0:...".
progress() {
    local what=$1 log=$2 line percent detail tenth last=-1 doing=
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log"
        if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
            percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
            detail="[${BASH_REMATCH[1]}/${BASH_REMATCH[2]}]"
        elif [[ $line =~ ^(dl|pm)status:[^:]*:([0-9]+)[.0-9]*: ]]; then
            percent=${BASH_REMATCH[2]}
            detail=downloading
            [ "${BASH_REMATCH[1]}" = dl ] || detail=installing
            [ "$detail" = "$doing" ] || last=-1
            doing=$detail
        else
            continue
        fi
        tenth=$((percent / 10))
        if on_terminal; then
            printf '\r\033[Kset-up: %s: %d %% %s' "$what" "$percent" "$detail" >&2
        elif [ "$tenth" -gt "$last" ]; then
            printf 'set-up: %s: %d %% %s\n' "$what" "$percent" "$detail" >&2
            last=$tenth
        fi
    done
    if on_terminal; then printf '\r\033[K' >&2; fi
}

# Ends the set-up because a step failed, showing the end of its log.
die_with_log() {
    local log=$1 kept=build/setup-failed.log
    shift
    cp "$log" "$kept"
    tail -n 25 "$kept" | sed 's/^/    /' >&2
    die "$@" "the whole log: $kept"
}

# Sets cache, by the rule by which the program looks for its model: XDG_CACHE_HOME counts when it is an
# absolute path.
cache_folder() {
    case ${XDG_CACHE_HOME:-} in
    /*) cache=$XDG_CACHE_HOME/retrace ;;
    *)
        [ -n "${HOME:-}" ] || die "neither XDG_CACHE_HOME nor HOME is set: no place for the cache"
        cache=$HOME/.cache/retrace
        ;;
    esac
}

# One set-up at a time. Without flock two could build the same thing, but neither breaks the other.
cache_lock() {
    mkdir -p "$cache" || die "cannot make the cache folder '$cache'"
    work=$cache/work.$$
    command -v flock >/dev/null || return 0
    exec 9>"$cache/lock"
    if ! flock -n 9; then
        say "another set-up is at work; waiting for it to end"
        flock 9
    fi
    # Nobody else is here, so what lies about was left by one that was killed.
    rm -rf "$cache"/work.*
}

cache_unlock() {
    rm -rf "$work"
}

# What was found, for scripts/build and the others. Targets that do not look for libllama keep what an
# earlier one found.
write_env() {
    local model=
    case $stage in
    fuzz | format)
        if [ -e build/setup.env ]; then
            . build/setup.env
            want_llama=$SETUP_LLAMA
            llama_dir=$SETUP_LLAMA_DIR
        fi
        ;;
    esac
    python_there || true
    model=$cache/models/$model_name
    [ -e "$model" ] || model=
    {
        printf 'SETUP_LLAMA=%q\n' "$want_llama"
        printf 'SETUP_LLAMA_DIR=%q\n' "$llama_dir"
        printf 'SETUP_PYTHON=%q\n' "$(python_of "$python_dir")"
        printf 'SETUP_PYTHON_CLIENTS=%q\n' "$(python_of "$clients_dir")"
        printf 'SETUP_PYTHON_LM_EVAL=%q\n' "$(python_of "$lm_eval_dir")"
        printf 'SETUP_MODEL=%q\n' "$model"
    } >build/setup.env.new
    if cmp -s build/setup.env.new build/setup.env; then
        rm build/setup.env.new
    else
        mv build/setup.env.new build/setup.env
    fi
}

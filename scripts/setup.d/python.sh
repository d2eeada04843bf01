# python.sh - the Python packages of the tests, in virtual environments in the cache.
#
# There are several sets, each in an environment of its own: what most tests use; clients of the server;
# and, for the long tests, lm-eval, whose list leaves out what it asks for and never imports.

python_dir=
clients_dir=
lm_eval_dir=

# The sets that a stage needs.
python_sets() {
    case $stage in
    format) echo requirements ;;
    check) echo requirements requirements-clients ${long:+requirements-lm-eval} ;;
    esac
}

# Sets `folder`. It is named by what decides its content; the mark `ready` is written last.
python_folder() {
    local key
    key=$({ cat "tests/$1.txt" && python3 -VV; } 2>/dev/null | sha256)
    folder=$cache/python-${key:0:12}
}

# Looks for every set; whether those that the stage needs are there.
python_there() {
    local set
    python_folder requirements && python_dir=$folder
    python_folder requirements-clients && clients_dir=$folder
    python_folder requirements-lm-eval && lm_eval_dir=$folder
    for set in $(python_sets); do
        python_folder "$set"
        [ -e "$folder/ready" ] || return 1
    done
}

python_install() {
    local set
    for set in $(python_sets); do
        python_folder "$set"
        [ -e "$folder/ready" ] || python_install_set "tests/$set.txt"
    done
}

python_install_set() {
    local flags=(--disable-pip-version-check --require-hashes --only-binary :all:)
    mkdir -p "$work"
    say "Python packages for the tests, into $folder:" \
        $(sed -n '/^# needed by these/q; s/^\([a-z0-9-]*\)==.*/\1/p' "$1")
    on_terminal || flags+=(-q)
    case $1 in *-lm-eval.txt) flags+=(--no-deps) ;; esac
    rm -rf "$folder"
    python3 -m venv "$folder" >&2 9>&- || die "python3 could not make a virtual environment"
    "$folder/bin/python" -m pip install "${flags[@]}" -r "$1" >&2 9>&- ||
        die "pip could not install the tests' packages"
    touch "$folder/ready"
}

# python_of FOLDER: its interpreter; nothing when it is not ready.
python_of() {
    [ ! -e "$1/ready" ] || printf '%s' "$1/bin/python"
}

# python.sh - the Python packages of the tests, in a virtual environment in the cache.

python_dir=

# The folder is named by what decides its content; the mark `ready` is written last.
python_there() {
    local key
    key=$({ cat tests/requirements.txt && python3 -VV; } 2>/dev/null | sha256)
    python_dir=$cache/python-${key:0:12}
    [ -e "$python_dir/ready" ]
}

python_install() {
    local quiet=()
    mkdir -p "$work"
    say "Python packages for the tests, into $python_dir:" \
        $(sed -n 's/^\([a-z0-9-]*\)==.*/\1/p' tests/requirements.txt)
    on_terminal || quiet=(-q)
    rm -rf "$python_dir"
    python3 -m venv "$python_dir" >&2 9>&- || die "python3 could not make a virtual environment"
    "$python_dir/bin/python" -m pip install "${quiet[@]+"${quiet[@]}"}" \
        --disable-pip-version-check --require-hashes --only-binary :all: \
        -r tests/requirements.txt >&2 9>&- || die "pip could not install the tests' packages"
    touch "$python_dir/ready"
}

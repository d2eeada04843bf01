# fetch.sh - one pinned file from the Python package index, by pip, so that whatever the person has
# configured there (index, mirror, proxy, certificates) holds here too.

# fetch WORDS REQUIREMENT SHA256 FOLDER [pip's flags]: the file of that package and hash into FOLDER.
fetch() {
    local words=$1 requirement=$2 hash=$3 folder=$4 quiet=()
    shift 4
    mkdir -p "$folder"
    printf '%s --hash=sha256:%s\n' "$requirement" "$hash" >"$folder/requirements.txt"
    say "downloading $words"
    on_terminal || quiet=(-q)
    pip_ready
    "${pip[@]}" download "${quiet[@]+"${quiet[@]}"}" --disable-pip-version-check --no-cache-dir \
        --no-deps --require-hashes -r "$folder/requirements.txt" -d "$folder" "$@" >&2 9>&-
}

# Sets pip. A system's Python often has no pip of its own; venv always brings one.
pip_ready() {
    pip=(env PIP_REQUIRE_VIRTUALENV=0 python3 -m pip)
    if ! "${pip[@]}" --version >/dev/null 2>&1; then
        [ -e "$work/pip/bin/python" ] || python3 -m venv "$work/pip"
        pip=("$work/pip/bin/python" -m pip)
    fi
}

# fetch_sdist, with fetch's arguments: a source distribution that is built with scikit-build-core.
# pip asks the package's build back end for metadata before it lets go of the file, and would install
# that back end and run it for a minute. The metadata lie in the archive already, so a stand-in copies
# them. Should a pip not take this, it does it its own way.
fetch_sdist() {
    local stand_in=$work/stand-in
    mkdir -p "$stand_in/scikit_build_core"
    : >"$stand_in/scikit_build_core/__init__.py"
    cat >"$stand_in/scikit_build_core/build.py" <<'PY'
import email, os, shutil


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    with open("PKG-INFO", encoding="utf-8") as f:
        head = email.message_from_file(f)
    info = "%s-%s.dist-info" % (head["Name"].replace("-", "_"), head["Version"])
    os.mkdir(os.path.join(metadata_directory, info))
    shutil.copy("PKG-INFO", os.path.join(metadata_directory, info, "METADATA"))
    return info
PY
    PYTHONPATH=$stand_in fetch "$@" --no-binary :all: --no-build-isolation && return
    say "once more, with the package's own build back end (a minute or two)"
    fetch "$@" --no-binary :all:
}

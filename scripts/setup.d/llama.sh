# llama.sh - libllama: the one that find_package(llama) finds, or one built here into the cache.
#
# The build is pinned to a source distribution by its hash and is made for this machine's CPU. Its
# folder in the cache is named by a hash of all that decides what comes out.

llama_version=0.3.36 # of the package llama-cpp-python, which carries llama.cpp
llama_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
llama_flags=(
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_INSTALL_RPATH=\$ORIGIN"
    -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF
    -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF
    -DLLAMA_BUILD_APP=OFF -DGGML_RPC=OFF -DGGML_BLAS=OFF -DGGML_CCACHE=OFF -DGGML_NATIVE=ON
)
llama_dir= # the folder of llama-config.cmake

# What "native" means to the compiler here: its predefined macros, which also name its version.
llama_cpu() {
    local cc=${CC:-cc}
    $cc -march=native -dM -E -x c /dev/null 2>/dev/null || $cc -mcpu=native -dM -E -x c /dev/null \
        2>/dev/null || { $cc --version && cat /proc/cpuinfo; } 2>/dev/null || uname -a
}

llama_prefix() {
    local key
    key=$({ printf '%s\n' "$llama_version" "${llama_flags[@]}" "${GGML:-}" && llama_cpu; } | sha256)
    printf '%s/llama-%s-%s' "$cache" "$llama_version" "${key:0:12}"
}

# Sets llama_dir when there is a libllama. One that the person installed comes first, unless GGML asks
# for a build with flags of its own.
llama_find() {
    local prefix
    llama_dir=
    if [ -z "${GGML:-}" ]; then
        llama_probe && return
    fi
    prefix=$(llama_prefix)
    if [ -e "$prefix/lib/cmake/llama/llama-config.cmake" ]; then
        llama_dir=$prefix/lib/cmake/llama
        return
    fi
    llama_dir=
    return 1
}

# Asks CMake for an installed libllama and tries our own code on it. The answer is remembered in
# build/, with what it depends on.
llama_probe() {
    local stamp=build/llama-probe asked found
    asked="${CMAKE_PREFIX_PATH:-}|${llama_DIR:-}|${llama_ROOT:-}|${CC:-}|${CXX:-}|$PATH"
    if [ ! -e "$stamp" ] || [ "$(sed 1d "$stamp")" != "$asked" ]; then
        has_cmake 2>/dev/null || return 1
        printf '%s\n%s\n' "$(llama_ask)" "$asked" >"$stamp"
    fi
    found=$(sed -n 1p "$stamp")
    [ -n "$found" ] || return 1
    if [ ! -e "$found/llama-config.cmake" ]; then
        rm "$stamp"
        return 1
    fi
    llama_dir=$found
}

llama_ask() {
    local dir=build/probe found
    rm -rf "$dir"
    mkdir -p "$dir"
    if cmake -S cmake/probe -B "$dir" -G Ninja ${llama_DIR:+"-Dllama_DIR=$llama_DIR"} \
        >"$dir/log" 2>&1; then
        found=$(cat "$dir/found")
        if [ -n "$found" ] && cmake --build "$dir" >>"$dir/log" 2>&1; then
            printf '%s' "$found"
            say "using the libllama in $found"
        elif [ -n "$found" ]; then
            say "the libllama in $found does not fit (see $dir/log); looking further"
        fi
    fi
}

# Parallel compilers, as many as there are cores and gigabytes.
llama_jobs() {
    local cores memory
    cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
    memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo 2>/dev/null || true)
    memory=$((${memory:-4000000} / 1000000))
    [ "$memory" -ge "$cores" ] || cores=$((memory > 0 ? memory : 1))
    printf '%s' "$cores"
}

llama_install() {
    local prefix source log
    prefix=$(llama_prefix)
    source=$work/llama_cpp_python-$llama_version/vendor/llama.cpp
    log=$work/llama.log
    mkdir -p "$work"
    say "libllama: will build llama.cpp from llama-cpp-python $llama_version into $prefix"
    fetch_sdist "llama-cpp-python $llama_version (77 MB)" "llama-cpp-python==$llama_version" \
        "$llama_sha256" "$work/download" || die "could not download llama-cpp-python"
    tar -C "$work" -xzf "$work/download/llama_cpp_python-$llama_version.tar.gz" \
        "llama_cpp_python-$llama_version/vendor/llama.cpp"
    llama_compile "$source" "$prefix" "$log"
    rm -rf "$prefix"
    mv "$work/installed$prefix" "$prefix"
    llama_dir=$prefix/lib/cmake/llama
}

# llama_compile SOURCE PREFIX LOG: leaves what belongs at PREFIX in $work/installed/PREFIX.
llama_compile() {
    local source=$1 prefix=$2 log=$3 more=()
    read -r -a more <<<"${GGML:-}"
    say "libllama: configuring"
    cmake -S "$source" -B "$work/llama-build" -G Ninja "${llama_flags[@]}" \
        "${more[@]+"${more[@]}"}" -DCMAKE_INSTALL_PREFIX="$prefix" >"$log" 2>&1 9>&- ||
        die_with_log "$log" "libllama could not be configured"
    say "libllama: compiling (4 minutes on 2 cores)"
    ninja -C "$work/llama-build" -j "$(llama_jobs)" 2>&1 9>&- | progress libllama "$log" ||
        die_with_log "$log" "libllama could not be built"
    DESTDIR=$work/installed ninja -C "$work/llama-build" install >>"$log" 2>&1 9>&- ||
        die_with_log "$log" "libllama could not be installed"
}

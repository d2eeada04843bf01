"""What `cmake --install` puts somewhere works there, after it was moved, for programs built elsewhere."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import DATA, ROOT, environment

BUILD = pathlib.Path(os.environ.get("RETRACE_BUILD", ROOT / "build"))
SIMPLE = ["table:%s" % (DATA / "cli_story.json"), "go", " testament to"]
CXX = """
#include <retrace.h>
#include <retrace_backward.h>
#include <retrace_ext.h>
#include <iostream>
int main() {
    std::cout << retrace_version() << std::endl;
    retrace_options o;
    retrace_options_default(&o);
    return o.max_tokens == 512 ? 0 : 1;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(retrace 0.1 CONFIG REQUIRED COMPONENTS static)
add_executable(shared simple.c)
target_link_libraries(shared PRIVATE retrace::retrace)
add_executable(static simple.c)
target_link_libraries(static PRIVATE retrace::static)
"""
PROJECT_CXX = """
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES CXX)
find_package(retrace REQUIRED)
add_executable(plus plus.cpp)
target_link_libraries(plus PRIVATE retrace::retrace)
"""


def run(*args, cwd=None, env=None):
    done = subprocess.run([str(a) for a in args], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (args, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def cached(name, build=BUILD):
    found = re.search("^%s:[A-Z]+=(.*)$" % name, (build / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Installed in one place, moved to another whose name has a blank."""
    folder = tmp_path_factory.mktemp("install")
    first, then = folder / "first", folder / "moved to" / "here"
    run("cmake", "--install", BUILD, "--prefix", first)
    then.parent.mkdir()
    first.rename(then)
    return then


@pytest.fixture(scope="module")
def plain(prefix, tmp_path_factory):
    """The same in a folder without a blank, which pkg-config's output is not made for."""
    folder = tmp_path_factory.mktemp("plain") / "retrace"
    shutil.copytree(prefix, folder, symlinks=True)
    return folder


def libdir(prefix):
    return next(prefix.rglob("pkgconfig")).parent


def not_found(file):
    out = subprocess.run(["ldd", file], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    return [line for line in out.stdout.splitlines() if "not found" in line]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What examples/simple.c prints when it is linked with the library of the build."""
    out = tmp_path_factory.mktemp("expected")
    run("cc", "-I", ROOT / "include", ROOT / "examples/simple.c", BUILD / "libretrace.so", "-o", out / "simple",
        "-Wl,-rpath,%s" % BUILD)
    return run(out / "simple", *SIMPLE)


# ==== What is there ====


def test_others_can_use_it_whatever_the_umask(tmp_path):
    to = tmp_path / "new" / "p\u00e9 x"
    run("sh", "-c", 'umask 077; exec cmake --install "$1" --prefix "$2"', "sh", BUILD, to)
    for path in [to.parent, to, *to.rglob("*")]:
        if not path.is_symlink():
            assert path.stat().st_mode & 0o555 == (0o555 if path.is_dir() else path.stat().st_mode & 0o111 | 0o444), path


def test_what_is_there(prefix):
    lib = libdir(prefix)
    for path in ["bin/retrace", "include/retrace.h", "include/retrace_ext.h", "include/retrace_backward.h",
                 "share/man/man1/retrace.1", "share/man/man3/libretrace.3",
                 "share/bash-completion/completions/retrace", "share/zsh/site-functions/_retrace",
                 "share/fish/vendor_completions.d/retrace.fish", "share/doc/retrace/README.md",
                 "share/doc/retrace/LICENSE", "share/doc/retrace/docs/cli.md",
                 "share/doc/retrace/examples/cliches.txt", "share/doc/retrace/examples/simple.c"]:
        assert (prefix / path).stat().st_size > 0, path
    version = run(prefix / "bin/retrace", "--version").split()[1]
    assert (lib / "libretrace.so").readlink().name == "libretrace.so.0"
    assert (lib / "libretrace.so.0").readlink().name == "libretrace.so." + version
    assert (lib / "libretrace.a").stat().st_size > 0
    dynamic = run("readelf", "-d", lib / "libretrace.so")
    assert re.search(r"SONAME.*\[libretrace\.so\.0\]", dynamic)


def test_the_program_runs_where_it_was_moved(prefix, tmp_path):
    env = environment(tmp_path, {})
    env.pop("LD_LIBRARY_PATH", None)
    out = run(prefix / "bin/retrace", "tokenize", "-m", DATA / "cli_story.json", "-p", "go", "--json", env=env)
    assert '"count"' in out
    assert not_found(prefix / "bin/retrace") == []
    assert not_found(libdir(prefix) / "libretrace.so") == []


def test_no_path_of_the_build_is_left(prefix):
    for path in list(libdir(prefix).rglob("*.pc")) + list(libdir(prefix).rglob("*.cmake")):
        assert str(BUILD) not in path.read_text() and str(ROOT) not in path.read_text(), path
        assert "first" not in path.read_text(), path
    for file in (prefix / "bin/retrace", libdir(prefix) / "libretrace.so"):
        path = re.search(r"R(?:UN)?PATH.*\[(.*)\]", run("readelf", "-d", file)).group(1)
        assert str(BUILD) not in path and "$ORIGIN" in path


def test_libllama_is_the_copy_that_was_installed(prefix):
    if cached("RETRACE_BUNDLE") != "ON" or cached("RETRACE_LLAMA") not in ("1", "ON"):
        pytest.skip("libllama is not installed with us")
    for file in (prefix / "bin/retrace", libdir(prefix) / "libretrace.so"):
        out = run("ldd", file)
        for name in ("libllama", "libggml", "libggml-base", "libggml-cpu"):
            where = re.search(r"%s\.so\S* => (.*) \(" % name, out).group(1)
            assert pathlib.Path(where).resolve().parent == libdir(prefix) / "retrace"


def test_destdir(tmp_path):
    env = dict(os.environ, DESTDIR=str(tmp_path / "stage"))
    run("cmake", "--install", BUILD, "--prefix", "/opt/retrace", env=env)
    assert (tmp_path / "stage/opt/retrace/bin/retrace").exists()


# ==== Names ====


def declared():
    """The functions that the headers promise."""
    text = "".join(p.read_text() for p in sorted((ROOT / "include").glob("*.h")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return set(re.findall(r"^RETRACE_API [^;{]*?\b(retrace_\w+)\(", text, re.M))


def defined(*nm):
    out = run("nm", "--defined-only", *nm)
    return {line.split()[-1] for line in out.splitlines() if re.match(r"[0-9a-f]+ [A-Z] ", line)}


def test_the_shared_library_shows_what_the_headers_declare_and_nothing_else(prefix):
    assert len(declared()) > 60
    assert defined("-D", libdir(prefix) / "libretrace.so") == declared()


def test_the_static_library_has_no_name_that_others_could_have(prefix):
    names = defined("-g", libdir(prefix) / "libretrace.a")
    others = {n for n in names if not n.startswith(("retrace_", "rt_"))}
    # Templates of the C++ library and the compiler's own, which are merged wherever they come from; and our
    # own names as C++ writes them.
    merged = re.compile(r"_Z(N|NK)?(St|9__gnu_cxx)|_Z\d+rt_|DW\.ref\.(__gxx|_ZTISt)")
    assert {n for n in others if not merged.match(n)} == set()
    assert names >= declared()


# ==== Programs built elsewhere ====


def user_project(folder, text, sources):
    (folder / "CMakeLists.txt").write_text(text)
    for name, source in sources.items():
        (folder / name).write_text(source)


def test_find_package(prefix, expected, tmp_path):
    user_project(tmp_path, PROJECT, {"simple.c": (ROOT / "examples/simple.c").read_text()})
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", "-DCMAKE_PREFIX_PATH=%s" % prefix)
    run("cmake", "--build", tmp_path / "b")
    for name in ("shared", "static"):
        assert run(tmp_path / "b" / name, *SIMPLE) == expected, name
        needed = "libretrace.so.0" in run("readelf", "-d", tmp_path / "b" / name)
        assert needed == (name == "shared")


def test_find_package_in_cxx(prefix, tmp_path):
    user_project(tmp_path, PROJECT_CXX, {"plus.cpp": CXX})
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", "-DCMAKE_PREFIX_PATH=%s" % prefix)
    run("cmake", "--build", tmp_path / "b")
    assert run(tmp_path / "b/plus") == run(prefix / "bin/retrace", "--version").split()[1] + "\n"


def test_find_package_of_another_version(prefix, tmp_path):
    user_project(tmp_path, "cmake_minimum_required(VERSION 3.20)\nproject(user C)\nfind_package(retrace 9 REQUIRED)\n", {})
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b", "-DCMAKE_PREFIX_PATH=%s" % prefix],
                          capture_output=True, text=True)
    assert done.returncode != 0 and "retrace" in done.stderr and "9" in done.stderr


def pkg_config(lib, *args):
    env = dict(os.environ, PKG_CONFIG_PATH=str(lib / "pkgconfig"))
    return run("pkg-config", *args, env=env).split()


def test_pkg_config(plain, expected, tmp_path):
    lib = libdir(plain)
    env = dict(os.environ, LD_LIBRARY_PATH=str(lib))
    flags = pkg_config(lib, "--cflags", "--libs", "retrace")
    assert not any("jansson" in f for f in flags)
    run("cc", ROOT / "examples/simple.c", *flags, "-o", tmp_path / "simple")
    assert run(tmp_path / "simple", *SIMPLE, env=env) == expected
    (tmp_path / "plus.cpp").write_text(CXX)
    run("c++", "-std=c++17", tmp_path / "plus.cpp", *flags, "-o", tmp_path / "plus")
    assert run(tmp_path / "plus", env=env) == "%s\n" % pkg_config(lib, "--modversion", "retrace")[0]


def test_pkg_config_static(plain, expected, tmp_path):
    lib = libdir(plain)
    run("cc", ROOT / "examples/simple.c", *pkg_config(lib, "--cflags", "--libs", "retrace-static"), "-o",
        tmp_path / "one")
    # `--static` is for where there is no shared library.
    alone = tmp_path / "alone"
    shutil.copytree(plain, alone, symlinks=True)
    for file in libdir(alone).glob("libretrace.so*"):
        file.unlink()
    run("cc", ROOT / "examples/simple.c", *pkg_config(libdir(alone), "--static", "--cflags", "--libs", "retrace"),
        "-o", tmp_path / "two")
    for name in ("one", "two"):
        assert run(tmp_path / name, *SIMPLE) == expected, name
        assert "libretrace.so" not in run("readelf", "-d", tmp_path / name)


# ==== The manual pages, and a build without most of it ====


def test_manual_pages_are_clean(prefix):
    for page in prefix.glob("share/man/man*/*"):
        done = subprocess.run(["mandoc", "-Tlint", "-Wstyle", page], capture_output=True, text=True)
        found = [line for line in done.stdout.splitlines() if "referenced manual not found" not in line]
        assert found == [], page


def test_the_manual_page_has_every_command_and_flag(prefix):
    text = run("mandoc", "-Tascii", "-O", "width=200", prefix / "share/man/man1/retrace.1")
    text = re.sub(".\b", "", text)
    docs = (ROOT / "docs/cli.md").read_text()
    for flag in set(re.findall(r"^\| `(--[a-z0-9-]+)", docs, re.M)):
        assert re.search(re.escape(flag) + r"\b", text), flag
    for command in re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", run(prefix / "bin/retrace", "--help"), re.M):
        assert re.search(r"^ +%s\b" % command, text, re.M), command


def test_a_build_without_the_libraries_of_its_parts(tmp_path):
    build, prefix = tmp_path / "build", tmp_path / "prefix"
    off = ["-DRETRACE_%s=OFF" % name for name in ("LLAMA", "SERVER", "HUB", "EDIT")]
    run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_INSTALL_LIBDIR=lib/deep", *off)
    run("cmake", "--build", build)
    run("cmake", "--install", build, "--prefix", prefix)
    program, env = prefix / "bin/retrace", environment(tmp_path, {})
    libraries = run("ldd", program)
    for name in ("llama", "microhttpd", "curl", "crypto", "edit"):
        assert "lib" + name not in libraries
    for args in (["serve"], ["pull", "user/repo"], ["models"]):
        done = subprocess.run([program, *args], capture_output=True, text=True, env=env)
        assert (done.returncode, done.stdout) == (2, "") and "built without" in done.stderr
    out = run(program, "generate", "-m", DATA / "cli_story.json", "-p", "go", "-n", "3", "-q", env=env)
    assert out
    assert defined("-D", libdir(prefix) / "libretrace.so") == declared()
    user_project(tmp_path, PROJECT, {"simple.c": (ROOT / "examples/simple.c").read_text()})
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja",
        "-Dretrace_DIR=%s" % (prefix / "lib/deep/cmake/retrace"))
    run("cmake", "--build", tmp_path / "b")
    lib = libdir(prefix)
    run("cc", tmp_path / "simple.c", *pkg_config(lib, "--cflags", "--libs", "retrace-static"), "-o", tmp_path / "p")
    assert lib == prefix / "lib/deep" and run(tmp_path / "b/static", *SIMPLE) == run(tmp_path / "p", *SIMPLE)

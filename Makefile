# Makefile - the commands of the README and their relatives. `make help` lists them.
#
# Thin on purpose: scripts/setup finds or installs what a target needs, CMake (scripts/build) knows
# what depends on what, ctest runs the tests. Everything built goes below build/.

LLAMA ?= 1
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
export LLAMA GGML FUZZ_SECONDS DESTDIR

.PHONY: all install demo check check-long bench bench-peers bench-backward bench-server bench-pull fuzz format clean \
	help

all:
	@scripts/setup --check build
	@scripts/build all

# What `make` has built: root, who may be another person with another cache, looks for nothing.
install:
	@[ -e build/setup.env ] || scripts/setup --check build
	@scripts/build all
	@cmake --install build --prefix "$(PREFIX)"

demo:
	@scripts/setup demo
	@scripts/build retrace
	@scripts/demo

check:
	@scripts/setup check
	@scripts/build all checks
	@scripts/check -LE long $(CTEST_FLAGS)

check-long:
	@scripts/setup check-long
	@scripts/build all checks
	@scripts/check $(CTEST_FLAGS)

bench:
	@scripts/setup demo
	@scripts/build retrace benches
	@bench/run

bench-peers:
	@scripts/setup demo
	@scripts/build retrace benches
	@bench/peers/run

bench-backward:
	@scripts/setup demo
	@scripts/build retrace benches
	@bench/backward_run

bench-server:
	@scripts/setup demo
	@scripts/build retrace benches
	@bench/server_run

bench-pull:
	@scripts/setup demo
	@scripts/build retrace
	@bench/pull_run

fuzz:
	@scripts/setup fuzz
	@scripts/fuzz

format:
	@scripts/setup format
	@scripts/format

clean:
	rm -rf build

help:
	@echo 'make              build/retrace, from what is installed already'
	@echo 'make install      put it below PREFIX ($(PREFIX)), or DESTDIR/PREFIX'
	@echo 'make demo         install what is missing, build, write a story on a real model'
	@echo 'make check        install what is missing, build, run every test'
	@echo 'make check-long   the same with the long tests'
	@echo 'make bench        measure against a bare libllama loop'
	@echo 'make bench-peers  measure against other programs'
	@echo 'make bench-backward   measure backward sampling (hours: see bench/backward_run)'
	@echo 'make bench-server     measure the server (half an hour)'
	@echo 'make bench-pull       measure pull beside curl (a minute, 1.5 GB of disk)'
	@echo 'make fuzz         run each fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS))'
	@echo 'make format       lay out the C files by .clang-format'
	@echo 'make clean        remove build/ (the cache folder stays)'
	@echo
	@echo 'YES=1             do not ask before sudo'
	@echo 'LLAMA=0           build without libllama: table models only'
	@echo "GGML='-D...'      CMake flags for libllama, as in GGML='-DGGML_CUDA=ON'"
	@echo "CTEST_FLAGS='...' flags for ctest, as in CTEST_FLAGS='-R laws'"

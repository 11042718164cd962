# SPDX-License-Identifier: Apache-2.0
# Thin on purpose: the work is done by meson and scripts/. Settings are PANDO_* names (build/server/pandod --help):
#     make run PANDO_LISTEN=127.0.0.1:9000 PANDO_DATA_DIR=/srv/pando
MAKEFLAGS += --no-print-directory
$(foreach name,$(filter PANDO_%,$(.VARIABLES)),$(eval export $(name)))

FUZZ_SECONDS ?= 30
STORM_SECONDS ?= 1800
PREFIX ?= /usr/local
POWERCUTS ?= 60
FAULTS ?= 60
KILLS ?= 200
SOAK_SECONDS ?= 1800
CYCLES ?= 1000
GENERATIONS ?= 200
export POWERCUTS FAULTS KILLS KILLS_OF FAULTS_SEED SOAK_SECONDS CYCLES GENERATIONS
export FUZZ_SECONDS FUZZ_TARGETS FUZZ_DIR STORM_SECONDS STORM_SEED STORM_TIMES STORM_BUILD PREFIX DESTDIR AGAINST

.PHONY: help deps build run install deb test test-long lint bench test-kvm fuzz fuzz-coverage storm powercut faults soak cycles clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-13s %s\n", $$1, $$2 }'

deps: ## install missing Debian packages (as root)
	@scripts/deps.sh build run test

build: ## compile what runs and is installed into build/
	@scripts/build.sh release

run: ## build, prepare and serve in the foreground until Ctrl-C (as root)
	@scripts/run.sh

install: ## install below PREFIX (/usr/local), or below DESTDIR; then: systemctl enable --now pando
	@scripts/install.sh

deb: ## make a Debian package, build/pando_*.deb
	@scripts/deb.sh

test: ## lints, unit, golden, fuzz-corpus, end-to-end tests with real VMs, the Debian package (as root)
	@scripts/test.sh

test-long: ## the end-to-end tests that take too long for make test (as root)
	@scripts/test.sh build e2e-long

lint: ## formatting, dependencies, sizes, words, threats, locks, shellcheck, clang-tidy
	@scripts/lint.sh

bench: ## measure, print a table, write bench/results/*.json; AGAINST=DIR compares with another checkout (as root)
	@scripts/bench.sh

test-kvm: ## the KVM path in a nested guest; slow (as root)
	@scripts/test-kvm.sh

fuzz: ## run each fuzz target, or FUZZ_TARGETS, for FUZZ_SECONDS (30) more; corpora and sums stay in FUZZ_DIR
	@scripts/fuzz.sh run

fuzz-coverage: ## which lines of their parsers the corpora of the fuzz targets reach
	@scripts/fuzz.sh coverage

storm: ## random verbs on the VM manager while things go wrong, for STORM_SECONDS (1800); STORM_SEED replays one
	@scripts/storm.sh

powercut: ## start on the disk as a power cut left it, POWERCUTS times (60); FAULTS_SEED repeats (as root)
	@scripts/faults.sh powercut

faults: ## the disk fails FAULTS times (60), processes are killed KILLS times (200) under load; FAULTS_SEED repeats (as root)
	@scripts/faults.sh faults

soak: ## all clients and a hostile one for SOAK_SECONDS (1800): nothing may grow, nobody may wait (as root)
	@scripts/faults.sh soak

cycles: ## suspend and resume one VM CYCLES times (1000), fork GENERATIONS of forks (200), in CYCLES_SECONDS (3600); then go on (as root)
	@scripts/faults.sh cycles

clean: ## remove the build directories; data and cache stay
	rm -rf build build-asan build-tsan build-fuzz build-cov

# IPoIB for illumos, in Rust: `make help` says what there is.

# rustup's cargo, also in the shell that has just installed it.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

# Incremental builds pay for a tree in which cargo is run by hand. Elsewhere they take three times the disk, so make does without.
ifeq ($(wildcard $(or $(CARGO_TARGET_DIR),target)/debug/incremental),)
export CARGO_INCREMENTAL ?= 0
endif

CARGO ?= cargo
SCENARIO ?= scenarios/two-hosts.toml
SEED ?=
FABRICS ?=
FOREIGN ?=
PEER ?=
REQUIRE ?=
SM ?=
SUITE ?=
DEBUG ?=
COUNT ?=
CPUS ?=
DRIVER ?=
IDENTITY ?=
LINKMODE ?=
KERNEL_CRATES := illumos-sys-hdrs kernel gldv3 ibtf ipoib mac_ib ibd ibtf-provider swhca swhca-ioctl
KERNEL_TARGET := x86_64-unknown-none

.PHONY: help help-all run test bench modules coverage campaign campaign-proof search-strength fuzz miri nightly audit bindings lint install-gate uninstall-gate try-gate abi-check run-gate package metal metal-shell metal-debug

help:
	@echo 'make run       two hosts on one fabric, through the built modules; as root, Linux programs over them, too'
	@echo 'make test      build the modules, run every test, audit the modules'
	@echo 'make lint      formatting, clippy for the workstation and for the kernel, rustdoc'
	@echo 'make modules   build the kernel modules into proto/kernel'
	@echo 'make campaign  search schedules and faults for what breaks (MINUTES=10, SEED=1; FABRICS=1: random fabrics)'
	@echo 'make bench     what a packet costs, into target/bench'
	@echo 'make metal GATE=dir            a real illumos kernel of that gate, in QEMU, with our modules'
	@echo 'make install-gate GATE=dir     put the sources into an illumos gate; uninstall-gate takes them out'
	@echo 'make help-all  every target with its variables'
	@echo 'cargo test     what needs nothing but cargo and a C compiler, in about a minute'
	@echo 'cargo ibdlab   the lab: run FILE, up FILE, exec HOST -- COMMAND, ... (cargo ibdlab --help)'

help-all:
	@echo 'make run       two hosts on one fabric, through the built modules'
	@echo '               (SCENARIO=file.toml, SEED=number, SM=opensm for a real OpenSM),'
	@echo '               then, as root, Linux programs over the drivers'
	@echo 'make test      build the modules, run every test, audit the modules'
	@echo '               (WHOLE=1: all seeds where a part of them is the rule, and each interruption where one in 23 is;'
	@echo '               FOREIGN=directory with illumos'"'"'s mac_ib and ibp: those that need them, too;'
	@echo '               REQUIRE=linux,opensm,valgrind, or some of them: a test that this machine would have to leave out fails)'
	@echo 'make bench     what a packet costs, into target/bench (PEER=directory with another driver, to measure in turn;'
	@echo '               COUNT=1: only instructions and locks in the drivers'"'"' own text, with valgrind, in a few minutes)'
	@echo 'make modules   build the kernel modules into proto/kernel'
	@echo 'make coverage  run SCENARIO on modules that count; the driver'\''s lines reached, into target/coverage'
	@echo 'make campaign  search schedules and faults for what breaks (MINUTES=10, SEED=1), into target/campaign;'
	@echo '               FABRICS=1: random fabrics and what is done on them (SM=opensm: on a real OpenSM);'
	@echo '               PAIRS=1: every event in the middle of every call that another one causes, until all are done'
	@echo 'make campaign-proof  the same on modules with planted faults; each must be found but those whose patch begins with "Not found today"'
	@echo 'make search-strength how many schedules each of them takes, with three seeds (MINUTES=60 ends it sooner, and it goes on there;'
	@echo '               most of a day without)'
	@echo 'make fuzz      libFuzzer on one TARGET of tests/fuzz (without TARGET: their names) for MINUTES=5; needs cargo install cargo-fuzz'
	@echo 'make miri      the crates with the driver'"'"'s unsafe code under Miri (a nightly toolchain)'
	@echo 'make nightly   lint, test WHOLE=1, miri, fuzz, the searches, the planted faults, and METAL with GATE=dir: some hours,'
	@echo '               and a summary in target/nightly (MINUTES=60 of schedules); a night that was ended goes on where it was;'
	@echo '               needs root, what fuzz and miri need, and valgrind'
	@echo 'make audit     build the modules and check that krtld can load them and the kernel can run them'
	@echo 'make bindings  regenerate the Rust bindings from the C headers of rust/illumos-sys-hdrs'
	@echo 'make lint      formatting, clippy for the workstation and for the kernel, rustdoc'
	@echo 'make install-gate GATE=dir     put the sources into an illumos gate; uninstall-gate takes them out'
	@echo 'make try-gate GATE=dir         both, on a copy of that gate, with every name resolved'
	@echo 'make abi-check GATE=dir        compare the kernel interface we assume with the headers of that gate'
	@echo 'make run-gate GATE=dir         make run, through modules with shims compiled against those headers'
	@echo 'make metal GATE=dir            build the kernel of that gate, boot it in QEMU with our modules and try them there'
	@echo '               (DEBUG=1 for its ASSERTs, CPUS=4, IDENTITY=ibd or both, DRIVER=c for its own driver; SUITE=full, LINKMODE=cm);'
	@echo '               make metal-shell GATE=dir: the same kernel, to be asked by hand; make metal-debug: in gdb (no SUITE, no LINKMODE)'
	@echo 'make package   an archive that puts the driver on an illumos machine and takes it away again'
	@echo 'make help      the targets of every day'

run:
	@SM='$(SM)' sh tools/setup.sh run
	@$(CARGO) run -p kmod -- build
	$(CARGO) run -p ibdlab -- run $(SCENARIO) $(if $(SEED),--seed $(SEED)) $(if $(SM),--sm $(SM))
	@$(CARGO) run --quiet -p ibdlab -- run --live $(if $(SM),--sm $(SM)) scenarios/linux-programs.toml
	@echo 'Next: sit down at a lab that stays up.'
	@echo '  cargo ibdlab up scenarios/desk.toml'
	@echo '  cargo ibdlab exec alice -- dladm show-ib'
	@echo '  cargo ibdlab shell alice'
	@echo '  cargo ibdlab down              # ends it'

test:
	@sh tools/setup.sh test
	@CARGO='$(CARGO)' FOREIGN='$(if $(FOREIGN),$(abspath $(FOREIGN)))' REQUIRE='$(REQUIRE)' $(if $(WHOLE),WHOLE=1) sh tools/test.sh

bench: modules
	$(CARGO) run --release --quiet -p ibdlab -- bench $(if $(PEER),--peer '$(PEER)') $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count)

modules:
	@sh tools/setup.sh modules
	@$(CARGO) run -p kmod -- build

coverage:
	@sh tools/setup.sh modules
	@$(CARGO) run --quiet -p kmod -- build --coverage
	$(CARGO) run --quiet -p ibdlab -- run $(SCENARIO) $(if $(SEED),--seed $(SEED)) --coverage target/coverage

campaign: modules
	@$(CARGO) run --quiet -p kmod -- build --coverage >/dev/null
	@$(CARGO) run --quiet -p kmod -- build --atomics >/dev/null
	@$(CARGO) run --quiet -p kmod -- build --races >/dev/null
	$(CARGO) run --release --quiet -p ibdlab -- campaign $(if $(PAIRS)$(MINUTES),,--minutes 10) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(SEED),--seed $(SEED)) $(if $(PAIRS),--pairs) $(if $(FABRICS),--fabrics $(if $(SM),--sm $(SM)))

campaign-proof:
	@sh tools/setup.sh modules
	@CARGO='$(CARGO)' sh tools/search-strength.sh --proof

search-strength:
	@sh tools/setup.sh modules
	@CARGO='$(CARGO)' sh tools/search-strength.sh $(MINUTES)

fuzz: modules
	@CARGO='$(CARGO)' sh tools/fuzz.sh '$(TARGET)' $(or $(MINUTES),5)

miri:
	@CARGO='$(CARGO)' sh tools/miri.sh

nightly:
	@sh tools/setup.sh test
	@sh tools/setup.sh lint
	@MAKE='$(MAKE)' MINUTES='$(MINUTES)' SEED='$(SEED)' GATE='$(GATE)' FOREIGN='$(FOREIGN)' sh tools/nightly.sh

audit: modules
	@$(CARGO) run --quiet -p kmod -- audit

bindings:
	@sh tools/setup.sh bindings
	$(CARGO) run --quiet -p bindings

# A second pass for the kernel's target: what is compiled for it alone, and what allocates without a way to fail.
lint:
	@sh tools/setup.sh lint
	$(CARGO) fmt --all --check
	shellcheck --severity=warning tools/*.sh tools/gate/*.sh tools/gate/tests/machine/command \
		packaging/archive/* tests/illumos/*.sh tests/illumos/run tests/illumos/preflight tests/illumos/summary \
		tests/illumos/compare tests/illumos/cases/*
	$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	CLIPPY_CONF_DIR=$(CURDIR)/tools/clippy-kernel $(CARGO) clippy --quiet --target $(KERNEL_TARGET) \
		$(addprefix -p ,$(KERNEL_CRATES)) -p metal-agent -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --quiet --workspace --exclude interleavings --no-deps --document-private-items

GATE_TOOL = $(CARGO) run --quiet -p gate --
THE_GATE = $(or $(GATE),$(error say which gate: make $@ GATE=directory))

install-gate:
	@sh tools/setup.sh modules
	@$(GATE_TOOL) install '$(THE_GATE)'
	@$(GATE_TOOL) check '$(THE_GATE)'

uninstall-gate:
	@sh tools/setup.sh modules
	@$(GATE_TOOL) uninstall '$(THE_GATE)'

try-gate:
	@sh tools/setup.sh modules
	@GATE_TOOL='$(GATE_TOOL)' sh tools/gate/try-public-gate.sh '$(THE_GATE)'

abi-check:
	@sh tools/setup.sh modules
	@$(GATE_TOOL) abi '$(THE_GATE)'

run-gate:
	@sh tools/setup.sh run
	@$(GATE_TOOL) modules '$(THE_GATE)' --kernel proto/gate/kernel
	$(CARGO) run -p ibdlab -- run $(SCENARIO) $(if $(SEED),--seed $(SEED)) --proto proto/gate/kernel

METAL = $(CARGO) run --quiet -p metal --
METAL_RUN = --root target/metal/$(if $(DEBUG),debug,plain)/root \
	$(if $(CPUS),--cpus $(CPUS)) $(if $(DRIVER),--driver $(DRIVER)) $(if $(IDENTITY),--identity $(IDENTITY))

METAL_BUILD = $(METAL) build '$(THE_GATE)' $(if $(DEBUG),--debug) $(if $(DRIVER),--driver $(DRIVER))

metal: modules
	@sh tools/setup.sh metal
	@$(METAL_BUILD)
	@$(METAL) run $(METAL_RUN) $(if $(SUITE),--suite $(SUITE)) $(if $(LINKMODE),--linkmode $(LINKMODE))

metal-shell: modules
	@sh tools/setup.sh metal
	@$(METAL_BUILD)
	@$(METAL) shell $(METAL_RUN)

metal-debug: modules
	@sh tools/setup.sh metal
	@$(METAL_BUILD)
	@$(METAL) debug $(METAL_RUN)

package: audit
	@$(GATE_TOOL) manifests
	@$(GATE_TOOL) package

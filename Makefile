# `make demo` and `make test` do all set-up on a fresh Debian 12 machine (root or sudo).
SHELL := /bin/bash
CARGO_BIN := $(HOME)/.cargo/bin
export PATH := $(CARGO_BIN):$(PATH)
PREFIX ?= /usr/local
# Crates that the demonstration does not need, and those for measurements and tests.
NOT_SHOWN := plimsoll-bench-vm plimsoll-mmtk plimsoll-libgc-stressed plimsoll-agent-tracer-alive
NOT_INSTALLED := plimsoll-bench plimsoll-testbed $(NOT_SHOWN)

.PHONY: help build check test test-v2 test-arm test-programs test-machines demo bench lint lint-arm fmt
.PHONY: test-clients lint-clients
.PHONY: fuzz simulate stress stress-jvm sanitize model miri docs install dist test-packages test-containers
.PHONY: clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

build: ## everything that is installed, optimised
	@tools/setup.sh build
	cargo build --release --workspace $(addprefix --exclude ,$(NOT_INSTALLED))

demo: ## three real programs share 1500 MB by weight, a hog comes and goes; then a report
	@tools/setup.sh demo
	cargo build --release --workspace $(addprefix --exclude ,$(NOT_SHOWN))
	target/release/plimsoll-bench demo --no-record

check: ## what needs no memory pressure and takes seconds: less than four minutes after a build
	@tools/setup.sh build
	tools/test.sh check

test: ## every test; those of all JDKs with all collectors run some of their cases
	@tools/setup.sh test
	tools/test.sh

test-v2: ## what depends on the kernel, on each machine with cgroup version 2; builds a kernel the first time
	@tools/setup.sh v2
	tools/v2.sh

test-machines: ## all cases of the tests of which `make test` runs some
	@tools/setup.sh test
	tools/test.sh every-case

test-clients: ## the clients in Python, Go, Java and Node, each by its own means
	@tools/setup.sh clients
	cargo build -p plimsoll-broker -p plimsoll-cli
	tools/clients.sh test

lint-clients: ## linters, formatters and type checkers of these languages
	@tools/setup.sh clients
	tools/clients.sh lint

test-programs: test-machines ## the same, and fifteen real programs on our libgc (ROUNDS=5 for more)
	@tools/setup.sh programs
	PROGRAMS_ROUNDS=$(or $(ROUNDS),1) \
	  cargo test --release -p plimsoll-libgc --test programs --test heavy-programs -- --nocapture

bench: bench-all ## every measurement (hours); bench-NAME for one; MINUTES=N (40) at most, ONLY=ROWS, GAPS=1

bench-%:
	@tools/setup.sh bench
	cargo build --release --workspace
	cargo build --release -p plimsoll-runtimes --example follow
	@$(MAKE) -s -C bench/programs all clients
	target/release/plimsoll-bench $* --minutes $(or $(MINUTES),40) $(if $(ONLY),--only '$(ONLY)') \
	  $(if $(AGAIN),--again) $(if $(GAPS),--gaps)

lint: ## formatting, clippy (for aarch64, too), our own rules (bench/tests/tidy.rs), dependencies (deny.toml)
	@tools/setup.sh lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --manifest-path fuzz/Cargo.toml -- -D warnings
	tools/arm.sh lint
	RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps --document-private-items
	cargo test -q -p plimsoll-bench --test tidy
	tools/deny.sh

lint-arm: ## clippy for aarch64 alone, which is a part of lint
	@tools/setup.sh arm-lint
	tools/arm.sh lint

test-arm: ## some of aarch64 under qemu-user: pure crates, the drop-in, the agent in Java programs
	@tools/setup.sh arm
	tools/arm.sh test

fmt: ## format everything
	cargo fmt --all

simulate: ## the broker's simulation for ten minutes (SECONDS=N for longer, SEED=N to replay)
	@tools/setup.sh build
	cargo test --release -p plimsoll-broker --test simulation -- \
	  $(if $(SEED),--seed $(SEED),--seconds $(or $(SECONDS),600))

fuzz: ## every fuzz target for SECONDS each (60)
	@tools/setup.sh build
	fuzz/run.sh $(or $(SECONDS),60)

stress: ## programs over our libgc under stress for ten minutes (SECONDS=N, PROGRAM=guile, SEED=N to replay)
	@tools/setup.sh test
	cargo test --release -p plimsoll-libgc --test stress -- \
	  $(if $(SEED),--seed $(SEED),--seconds $(or $(SECONDS),600)) $(if $(PROGRAM),--program $(PROGRAM))

stress-jvm: ## the agent in every collector of every JDK, an hour of churn, recorded (SECONDS=N: not)
	@tools/setup.sh test
	$(if $(SECONDS),,PLIMSOLL_CHURN_RECORD="$(CURDIR)/bench/results/stress-jvm.md") \
	  PLIMSOLL_CHURN_COMMIT="$$(git describe --always --dirty)" PLIMSOLL_CHURN_SECONDS=$(or $(SECONDS),3600) \
	  cargo test --release -p plimsoll-agent-jvm --test real no_machine_is_harmed -- --nocapture

sanitize: ## the heap's tests under the address and the thread sanitizer
	@tools/setup.sh sanitize
	tools/sanitize.sh address thread

model: ## models of threads that meet, in more of their orders than `make test` (PREEMPTIONS=N, 4)
	@tools/setup.sh build
	LOOM_MAX_PREEMPTIONS=$(or $(PREEMPTIONS),4) \
	  cargo test --release -p plimsoll-heap -p plimsoll-libgc --test model

miri: ## the heap's tests in plain memory, and those without system calls, under Miri
	@tools/setup.sh miri
	CARGO_TARGET_DIR=target/miri PROPTEST_CASES=4 \
	  MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks' \
	  cargo +nightly miri test -p plimsoll-heap --lib --test plain -- \
	  --skip os:: --skip mapped_stack:: --skip central:: --skip store::

docs: ## the book, in docs/book
	@tools/setup.sh docs
	.cache/bin/mdbook build docs

install: build ## into PREFIX (/usr/local)
	tools/install.sh $(DESTDIR)$(PREFIX)

dist: ## packages (deb, rpm), tarball, image, sums, bill of materials: the same bytes for a commit
	@tools/setup.sh dist
	packaging/dist.sh
	packaging/check.sh

test-packages: dist ## the packages in clean roots of Debian 12 and 13, as root; 2 GB below .cache
	packaging/test.sh

test-containers: ## a broker and three services in containers of Docker, as root; no image is downloaded
	@tools/setup.sh containers
	cargo build --release -p plimsoll-cli -p plimsoll-broker -p plimsoll-libgc -p plimsoll-agent-jvm
	cargo build --release -p plimsoll-client --example cache
	packaging/compose/try.sh

clean: ## what cargo built
	cargo clean

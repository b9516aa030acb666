# Everything a person or a CI machine does here is a target of this file.
# `make` alone lists the targets. Needs: Go, Node with npm, make, bash.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

ROOT := $(CURDIR)
BIN  := $(ROOT)/.bin

# The product's modules come from go.work, so a new one is picked up everywhere.
# tools and tools/peers are not in the workspace: their dependencies must not raise the product's versions.
MODULES := $(shell awk '$$1 ~ /^\.\// {print substr($$1, 3)}' go.work)
PACKAGES := $(MODULES:%=./%/...)

# A clone owned by another user (containers, CI) makes `go build` refuse to stamp.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

BUF      := $(BIN)/npm/node_modules/.bin/buf
WEB_DEPS := web/node_modules/.stamp
E2E_DEPS := web/e2e/node_modules/.stamp

# Variables a caller may set.
ARGS         ?=
QUICK        ?=
FUZZTIME     ?= 30s
KILLS        ?= 100
TEST_TIMEOUT ?= 12m
TEST_FLAGS   ?=
PKG          ?= $(PACKAGES)

# in-each runs a command in every module, prints where, and fails at the end if
# any failed, so that one red module does not hide the next.
define in-each
	status=0; \
	for m in $(1); do \
		echo "== $$m: $(strip $(2))"; \
		(cd $$m && $(2)) || { status=1; echo "== $$m: FAILED" >&2; }; \
	done; \
	exit $$status
endef

##@ Everyday

.PHONY: help
help: ## Print this list.
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z][a-z-]*:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nVariables: ARGS="…" (run, bench, mutants), QUICK=1 (bench), FUZZTIME=30s (fuzz), KILLS=100 (soak), PKG=./data-plane/node/… (test-go, test-short, test-race), TEST_FLAGS="-run X"\n'

.PHONY: run
run: build ## Start the whole service on this machine: corvo-cloud up $(ARGS).
	@exec $(BIN)/corvo-cloud up $(ARGS)

.PHONY: build
build: web ## Build the console, corvo, corvo-cloud and the Terraform provider (into .bin).
	@mkdir -p $(BIN)
	cd cli && go build -o $(BIN)/corvo ./cmd/corvo
	cd services && go build -o $(BIN)/corvo-cloud ./cmd/corvo-cloud
	cd terraform-provider && go build -o $(BIN)/terraform-provider-corvo .

.PHONY: test
test: ## Everything CI runs: verify, lint and all tests (20 to 40 minutes on two cores).
	@$(MAKE) verify
	@$(MAKE) lint
	@$(MAKE) test-web
	@$(MAKE) test-go
	@$(MAKE) test-docs
	@$(MAKE) test-console

.PHONY: fmt
fmt: ## Rewrite Go files with gofmt -s.
	@$(GO_FILES) | xargs -0 -r gofmt -s -w

.PHONY: clean
clean: ## Remove built binaries, tools and local data.
	rm -rf $(BIN) $(ROOT)/.run $(ROOT)/.bench $(ROOT)/.screens web/node_modules web/e2e/node_modules web/dist/assets web/dist/index.html

##@ Tests

# One go command for all modules, so that it builds one package while others are tested.
# Most tests wait for elections, disks, clocks and databases: with three packages at a time, two
# cores are busy. Those that run whole clouds, or build older ones, come after the
# others, a package at a time: beside a compiler, a cloud of three nodes answers 503 for
# longer than any client waits. -count=1: many run binaries they build, which the test cache
# does not see; corvo-cloud is built once for all of them. -vet=off: lint vets everything.
.PHONY: test-go
test-go: $(BIN)/.go-tools.stamp ## Only the Go tests of every module; PKG and TEST_FLAGS narrow them.
	cd services && go build -ldflags=-w -o $(BIN)/e2e/corvo-cloud ./cmd/corvo-cloud
	@all=$$(go list $(PKG)) || exit 1; clouds='/services/e2e(/|$$)'; status=0; \
	run() { [ $$# -eq 1 ] || CORVO_E2E_CLOUD=$(BIN)/e2e/corvo-cloud $(BIN)/gotestsum --format pkgname -- \
		-parallel 4 -count=1 -vet=off -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) -p "$$@" || status=1; }; \
	run 3 $$(printf '%s\n' $$all | grep -vE "$$clouds"); run 1 $$(printf '%s\n' $$all | grep -E "$$clouds"); exit $$status

.PHONY: test-docs
test-docs: ## Do what the pages of docs/ say, against the real service.
	@cd tools && GOWORK=off go test -count=1 -timeout 5m ./quickstart

.PHONY: test-web
test-web: web ## Type check, lint and unit tests of the console.
	@cd web && npm run --silent check && npm run --silent test

.PHONY: test-console
test-console: build $(BIN)/.console-tools.stamp ## The journeys in a real browser, with a third-party mail server and identity provider.
	@cd web/e2e && npx playwright test $(TEST_FLAGS)

.PHONY: screens
screens: build $(BIN)/.console-tools.stamp ## Pictures of every page, desktop and phone, light and dark, into .screens.
	@cd web/e2e && npx playwright test --config screens.config.ts

.PHONY: test-short
test-short: ## The Go tests without the long ones and those that start programs (under two minutes).
	go test -short -parallel 8 -timeout 5m $(TEST_FLAGS) $(PKG)

.PHONY: test-race
test-race: ## The short tests under the race detector (needs a C compiler).
	CGO_ENABLED=1 go test -race -short -timeout 20m $(TEST_FLAGS) $(PKG)

# Too long for CI; run it before an issue is called resolved.
.PHONY: test-long
test-long: ## What is too long for make test: wrong clocks, kills, storms, floods, years, the simulated month, planted bugs, every fuzz target (an hour and a half).
	@cd services && CORVO_TEST_LONG=1 go test ./e2e/clocks -count=1 -timeout 20m
	@$(MAKE) test-upgrade
	@$(MAKE) test-keycloak
	@cd services && CORVO_TEST_LONG=1 go test ./e2e -run TestDeleted_NoFile -count=1 -timeout 20m
	@cd services && CORVO_TEST_LONG=1 go test ./e2e/cloud -run TestMachine_AWorkerExchanges -count=1 -timeout 20m
	@cd services && go test ./sim -run TestSim -count=1 -v -timeout 30m -sim.seeds=1000 -sim.first=$$(date +%s) -sim.for=10m
	@$(MAKE) year
	@$(MAKE) month
	@$(MAKE) test-catchup
	@$(MAKE) soak
	@$(MAKE) nemesis
	@$(MAKE) full-disk
	@$(MAKE) mutants
	@$(MAKE) fuzz FUZZTIME=10s
	@$(MAKE) flood

# The short form, once there and back, is among the Go tests.
.PHONY: test-upgrade
test-upgrade: ## Two builds of corvo-cloud in one cell, upgraded and downgraded repeatedly (two minutes).
	cd services && CORVO_TEST_LONG=1 go test ./e2e/upgrade -count=1 -v -timeout 20m

.PHONY: test-keycloak
test-keycloak: web $(BIN)/.console-tools.stamp ## Sign in by OpenID Connect and SAML through a real Keycloak, also in Chromium (six minutes; needs Java 17, Maven and unzip).
	@home=$$(tools/install-keycloak $(BIN)); cd services && CORVO_KEYCLOAK=$$home go test ./e2e/keycloak -count=1 -v -timeout 20m $(TEST_FLAGS)

.PHONY: full-disk
full-disk: ## Fill the disks of a cell, four file systems of 1 GiB (a minute; needs root to mount them, or is skipped).
	cd services && CORVO_TEST_LONG=1 go test ./e2e/fulldisk -count=1 -v -timeout 10m

.PHONY: test-catchup
test-catchup: ## A node is away for ten minutes under full load, and comes back (a quarter of an hour).
	cd services && CORVO_TEST_LONG=1 go test ./e2e -run TestCatchUp -count=1 -v -timeout 30m

.PHONY: soak
soak: ## Kill the leader under load KILLS=100 times, measure how soon writes resume and check the whole history (about six minutes).
	cd services && CORVO_SOAK_KILLS=$(KILLS) go test ./e2e/nemesis -run TestLeaderKills -count=1 -v -timeout 60m

SEEDS ?= 10
FIRST ?= 1
FAULTS ?= 25
ONLY   ?=

# The short form, five faults, is among the Go tests.
.PHONY: nemesis
nemesis: SEEDS = 4
nemesis: ## SEEDS=4 cells of real processes with FAULTS=25 faults each, from seed FIRST=1 on: kills, pauses, partitions, bad disks, membership, two builds in odd seeds; ONLY='kill|pause' draws those alone (twenty minutes; needs root for namespaces, or is skipped).
	cd services && go test ./e2e/nemesis -run TestStorm -count=1 -v -timeout 24h -nemesis.seeds=$(SEEDS) -nemesis.first=$(FIRST) -nemesis.faults=$(FAULTS) -nemesis.lasts=15s -nemesis.older -nemesis.only="$(ONLY)"

.PHONY: sim
sim: ## SEEDS=10 cells in virtual time with FAULTS=25 faults each, from seed FIRST=1 on; says which faults and how many (about half a minute each).
	cd services && go test ./sim -run TestSim -count=1 -v -timeout 24h -sim.seeds=$(SEEDS) -sim.first=$(FIRST) -sim.faults=$(FAULTS)

# It needs the machine for itself: it says how much others used, and repeats what they disturbed.
# Ten million jobs through one node with a retention of a minute; CORVO_YEAR_JOBS says how many.
.PHONY: year
year: ## A year in an afternoon: nothing grows once what has ended is deleted (a quarter of an hour).
	cd services && CORVO_TEST_LONG=1 go test ./e2e/year -count=1 -v -timeout 90m

# The short form, two days with the end of a month, is among the Go tests.
.PHONY: month
month: ## A month of 1,000 tenants while everything dies and Stripe fails: clients, ledger and invoices agree (half an hour; CORVO_MONTH_TENANTS=200 is less).
	cd services && CORVO_TEST_LONG=1 go test ./e2e/month -count=1 -v -timeout 120m

.PHONY: flood
flood: ## What a quiet tenant notices of floods, on its shard, on another, and of ten (two minutes).
	cd services && CORVO_TEST_LONG=1 go test ./e2e/flood -count=1 -v -timeout 20m

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME each.
	@tools/fuzz-all $(FUZZTIME) $(MODULES)

.PHONY: mutants
mutants: ## Break the state machine, the doors, the rights and the bill line by line; every break must fail a test (half an hour on two cores).
	@cd tools && GOWORK=off go build -o $(BIN)/mutants ./mutants
	@$(BIN)/mutants -module data-plane $(ARGS)
	@$(BIN)/mutants -module data-plane/api $(ARGS)
	@$(BIN)/mutants -module control-plane/api $(ARGS)
	@$(BIN)/mutants -module control-plane $(ARGS)
	@$(BIN)/mutants -module services $(ARGS)
	@$(BIN)/mutants -module services/sim $(ARGS)

.PHONY: bench
bench: build peers ## Measure against the aims, the machine's limits and other queues (under an hour; QUICK=1 under ten minutes).
	@status=0; \
	$(BIN)/corvo bench --suite aims --peers $(BIN)/peers --commit "$$(git describe --always --dirty --abbrev=12)" $(if $(QUICK),--quick) $(ARGS) || status=1; \
	$(if $(QUICK),,$(MAKE) flood idle || status=1;) exit $$status

.PHONY: idle
idle: ## What a thousand namespaces cost a node when nothing happens in them (five minutes).
	cd services && go test ./e2e -run xxx -bench IdleNamespaces -benchtime 1x -timeout 20m

##@ Checks and generated code

.PHONY: generate
generate: setup $(WEB_DEPS) ## Regenerate code from the protos and the OpenAPI document.
	cd data-plane/api && $(BUF) generate --clean
	cd control-plane/api && $(BUF) generate --clean
	cd web && npm run --silent generate

.PHONY: tidy
tidy: ## Bring every go.mod and go.sum up to date.
	@$(call in-each,$(MODULES) tools tools/peers,GOWORK=off go mod tidy)

# verify never writes into the tree: it regenerates beside it and compares.
.PHONY: verify
verify: verify-generated verify-modules verify-builds ## Fail if generated code, formatting or go.mod files are out of date.
	@$(MAKE) fmt-check

.PHONY: verify-generated
verify-generated: setup $(WEB_DEPS)
	cd data-plane/api && $(BUF) lint
	cd control-plane/api && $(BUF) lint
	@tools/verify-generated $(BUF)

.PHONY: verify-modules
verify-modules:
	@$(call in-each,$(MODULES) tools tools/peers,GOWORK=off go mod tidy -diff)

.PHONY: verify-builds
verify-builds:
	@$(call in-each,$(MODULES),GOWORK=off go build ./...)

.PHONY: fmt-check
fmt-check:
	@out=$$($(GO_FILES) | xargs -0 -r gofmt -s -l); \
	if [ -n "$$out" ]; then echo "not formatted (make fmt):" >&2; echo "$$out" >&2; exit 1; fi

# One pass: corvovet is go vet, staticcheck and our analyzers, and go vet keeps its answers.
# tools/DESIGN.md says why it is not golangci-lint.
.PHONY: lint
lint: setup fmt-check $(E2E_DEPS) ## gofmt, go vet, staticcheck, our analyzers, the types of the journeys, and the rules of the repository.
	go vet -vettool=$(BIN)/corvovet $(PACKAGES)
	@echo "== web/e2e: tsc"
	@cd web/e2e && npx tsc
	@echo "== tools: go vet, go test (analyzers, import law, citations, planted bugs that build)"
	@cd tools && export GOWORK=off && go vet -vettool=$(BIN)/corvovet ./... && go test -count=1 ./analyzers ./law ./mutants
	@cd tools/peers && export GOWORK=off && go vet -vettool=$(BIN)/corvovet ./... && go test -short -count=1 ./...

##@ Tools

.PHONY: setup
setup: $(BIN)/.go-tools.stamp $(BIN)/.npm-tools.stamp ## Install the pinned tools into .bin (done once, again when a pin changes).

# Versions are those of tools/go.mod and tools/go.sum.
$(BIN)/.go-tools.stamp: tools/go.mod tools/go.sum $(shell find tools -name '*.go' -not -path '*/testdata/*' -not -path 'tools/peers/*' -not -name '*_test.go' 2>/dev/null)
	@mkdir -p $(BIN)
	cd tools && GOWORK=off go build -o $(BIN)/ \
		google.golang.org/protobuf/cmd/protoc-gen-go \
		connectrpc.com/connect/cmd/protoc-gen-connect-go \
		gotest.tools/gotestsum \
		github.com/stripe/stripe-mock \
		./cmd/corvovet
	@touch $@

$(BIN)/.npm-tools.stamp: tools/npm/package.json tools/npm/package-lock.json
	@mkdir -p $(BIN)/npm
	cp tools/npm/package.json tools/npm/package-lock.json $(BIN)/npm/
	cd $(BIN)/npm && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# beanstalkd, Redis and PostgreSQL are the system's; the others are Go modules of tools/peers.
.PHONY: peers
peers: ## Install the queues that make bench compares with, and build what measures them.
	@tools/install-peers
	@mkdir -p $(BIN)
	cd tools/peers && GOWORK=off go build -o $(BIN)/peers .

# The console. Its packages are those of web/package-lock.json. Not `npm ci`: that also
# wants the binaries of every other platform, which a mirror of packages may not hold.
$(WEB_DEPS): web/package.json web/package-lock.json web/.npmrc
	cd web && npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: web
web: web/dist/index.html ## Build the console into web/dist, which the control plane embeds.

web/dist/index.html: $(WEB_DEPS) $(shell find web/src web/public web/index.html web/vite.config.ts -type f 2>/dev/null)
	cd web && npm run --silent build
	@touch $@

# A browser from the system's packages; the journeys' mail server and identity provider from npm.
$(BIN)/.console-tools.stamp: $(E2E_DEPS) tools/install-chromium
	@mkdir -p $(BIN)
	@command -v chromium-headless-shell >/dev/null || tools/install-chromium
	@touch $@

$(E2E_DEPS): web/e2e/package.json web/e2e/package-lock.json
	cd web/e2e && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Every Go file of ours that people write, NUL-separated.
GO_FILES = find $(MODULES) tools -name '*.go' -not -path '*/gen/*' -not -path '*/testdata/*' -not -path '*/node_modules/*' -print0 | sort -zu

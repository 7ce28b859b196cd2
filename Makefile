# pacer: make help lists what can be done here.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Settings, to be given on the command line.
VERSION   ?=
COMMIT    ?=
FUZZTIME  ?= 10s
RUNS      ?= 20
BENCHFLAGS ?=
TESTFLAGS ?=
# no: make test looks for what the tests start, and installs nothing.
INSTALL   ?= yes
PKGS      ?= ./...
export VERSION COMMIT
# Whatever is compiled here serves every checkout of the module, and every target whose C library is the same: only the
# race detector needs one.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
build lint bench-smoke bench-costs: export CGO_ENABLED := 0

# The Go command records version and commit of a checkout by itself; these two replace what it recorded.
LDFLAGS := $(if $(VERSION),-X github.com/pacer-notify/pacer/internal/version.version=$(VERSION)) \
	$(if $(COMMIT),-X github.com/pacer-notify/pacer/internal/version.commit=$(COMMIT))

# Where it is not installed, the Go command builds it, which takes some minutes. The workflows install this version too.
GORELEASER := $(shell command -v goreleaser || echo go run github.com/goreleaser/goreleaser/v2@v2.16.0)

# The benchmarks against other systems and the tools are modules of their own, so that what they need stays out of the
# product's go.mod.
BENCH_MODULE := $(patsubst %/go.mod,%,$(wildcard bench/go.mod))
MODULES := . tools $(BENCH_MODULE)
NODE_PACKAGES := internal/push/peertest/testdata internal/app/testdata/axe bench/node
INSTALLED_NODE_PACKAGES := $(NODE_PACKAGES:%=%/node_modules/.package-lock.json)
# What the tests start themselves, by its name in scripts/need.sh; gcc is for the race detector.
SERVERS := redis postgres pgbouncer postfix node chromium promtool systemd zsh fish gcc
LINT := go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint
# All build tags of each module: they are compatible. A new tag belongs here, or make lint does not see its files.
LINT_TAGS := accept,faults,soak
BENCH_LINT_TAGS := growth
# The packages with a file that some tag keeps out.
UNTAGGED = $(shell grep -rlE '^//go:build .*!' --include='*.go' cmd internal test scripts client | xargs -n 1 dirname | sort -u | sed 's,^,./,')
VULN := go tool -modfile=$(CURDIR)/tools/go.mod govulncheck

.PHONY: help
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "; print "usage: make TARGET [NAME=VALUE]\n"} \
		/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build dispatcher and enqueue into bin/ (VERSION=v1.2.3 to set the version)
	@mkdir -p bin
	go build -ldflags "$(strip $(LDFLAGS))" -o bin/ ./cmd/...

.PHONY: image
image: ## build the container image pacer:VERSION (default: what git describe says)
	@version=$${VERSION:-$$(git describe --tags --always --dirty)}; commit=$${COMMIT:-$$(git rev-parse HEAD)}; set -x; \
	docker build --build-arg VERSION="$$version" --build-arg COMMIT="$$commit" --tag "pacer:$$version" .

.PHONY: release
release: ## draft the release of the tag that is checked out, with its section of the changelog (needs goreleaser, syft)
	@notes=$$(mktemp); trap 'rm -f "$$notes"' EXIT; tag=$$(git describe --tags --exact-match); \
	awk -v version="$${tag#v}" '/^## / { found = $$2 == version || $$2 == "[" version "]"; next } found' CHANGELOG.md >"$$notes"; \
	grep -q . "$$notes" || { echo "CHANGELOG.md says nothing about $$tag" >&2; exit 1; }; \
	$(GORELEASER) release --clean --release-notes "$$notes"

.PHONY: snapshot
snapshot: ## write the files of a release into dist/ from what is checked out, SBOMs aside; publishes nothing
	$(GORELEASER) release --snapshot --clean --skip=sbom

.PHONY: demo
demo: ## run the demo: throttled deliveries in the terminal, nothing to install or set
	go run ./cmd/dispatcher demo

# The race detector leaves out the interpreter of Lua scripts of the Redis inside the process: it works under that Redis's
# lock, on what no other goroutine sees. Leave out no package that uses generic types with atomics, such as sync.Map: the
# linker may take their code from it for the whole program, and the detector then reports races that are none.
UNRACED := -gcflags='github.com/yuin/gopher-lua/...=-race=false'

.PHONY: test
test: $(if $(filter no,$(INSTALL)),check-servers,install-servers) ## run all tests under the race detector; installs what they start, unless INSTALL=no (PKGS=./internal/x TESTFLAGS=-v)
	go test -race $(UNRACED) -ldflags=-w -parallel 4 -shuffle=on -count=1 -timeout 30m $(TESTFLAGS) $(PKGS)

.PHONY: accept
accept: check-servers ## run the long end-to-end scenarios against built programs, those of many rows, a restored Postgres, and the night cases
	go test -p 1 -count=1 -timeout 30m -v -tags accept ./test/e2e ./test/night
	go test -count=1 -timeout 30m -v -tags accept -run 'TestAMillion|TestDashboardOfALargeCrowd|TestRestoringPostgres' \
		./internal/store/postgres ./internal/store/redis ./internal/retime ./internal/app
	CHATROOM_DAYS=10 go test -count=1 -timeout 30m -v -run TestChatRoomAtNight ./internal/agenda

.PHONY: accept-full
accept-full: check-servers ## the same, with ten days of the chat room instead of one (25 minutes more)
	ACCEPT_DAYS=10 go test -p 1 -count=1 -timeout 60m -v -tags accept ./test/e2e ./test/night

.PHONY: faults
faults: check-servers ## meet every fault there is under load, in 40 minutes (FAULTS=short: a tenth of the load; FAULTS_ONLY=REGEXP)
	go test -count=1 -timeout 90m -v -tags faults -run TestFaults ./test/faults
	go test -count=1 -timeout 10m -v -tags faults -run TestRedisClusterShardFailsOver ./internal/app

.PHONY: faults-docs
faults-docs: check-servers ## the same, and write the table into docs/measurements/faults.md
	FAULTS_DOCS=../../docs/measurements/faults.md go test -count=1 -timeout 90m -v -tags faults -run TestFaults ./test/faults

.PHONY: faults-red
faults-red: check-servers ## run every fault with its protection switched off, and see it fail
	FAULTS_RED=1 go test -count=1 -timeout 120m -v -tags faults -run TestFaults ./test/faults

.PHONY: soak
soak: check-servers ## an hour of all kinds of traffic with faults at random, all promises checked (SOAK=2m to try, SOAK_REPORT=FILE)
	go test -count=1 -timeout 0 -v -tags faults,soak -run TestSoak ./test/faults

.PHONY: chaos
chaos: check-servers ## play random schedules in which every call to a store may fail (CHAOS_SCHEDULES=20000 CHAOS_MINUTES=60 CHAOS_SEED=N AGENDA_STEPS=100000)
	CHAOS_SCHEDULES=$${CHAOS_SCHEDULES:-20000} CHAOS_MINUTES=$${CHAOS_MINUTES:-60} CHAOS_SEED=$${CHAOS_SEED:-$$(date +%s)} \
	go test -count=1 -timeout 120m -v ./test/chaos
	$(if $(CHAOS_REPLAY),,AGENDA_STEPS=$${AGENDA_STEPS:-100000} go test -count=1 -timeout 30m -v -run TestAnyProgram ./internal/agenda)
	$(if $(CHAOS_REPLAY),,go test -count=1 -timeout 30m -run 'TestLuaAgrees|TestAllowedTogether|TestConformance/.*/RefusalsAreFree' ./internal/throttle -traces 30000 -refusals 100000)
	$(if $(CHAOS_REPLAY),,go test -count=1 -timeout 30m -run TestConformance/.*/ListsWhatTheFilterSelects ./internal/store/redis ./internal/store/postgres -filters 300)
	$(if $(CHAOS_REPLAY),,go test -count=1 -timeout 30m -run TestEveryMinuteOfEveryZone ./internal/calendar -every-zone)

.PHONY: chaos-red
chaos-red: check-servers ## switch protections off, one at a time, and see that random schedules, programs and traces find out (CHAOS_MUTATION=NAME)
	go test -count=1 -timeout 120m -v -tags faults -run TestChaosFindsWhatIsSwitchedOff ./test/chaos
	$(if $(CHAOS_MUTATION),,go test -count=1 -timeout 30m -v -tags faults -run FindFaults ./internal/agenda ./internal/throttle)

.PHONY: fuzz
fuzz: check-servers ## run every fuzz target for FUZZTIME=10s
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: check-servers ## measure pacer beside others, in one run, as ratios (BENCHFLAGS="-only dispatch -rounds 5")
	go -C bench run . $(BENCHFLAGS)

.PHONY: bench-docs
bench-docs: check-servers ## the same, and write the tables into docs/measurements/benchmarks.md
	go -C bench run . -docs ../docs/measurements $(BENCHFLAGS)

.PHONY: bench-costs
bench-costs: check-servers ## fail when an item costs more than it did: counts, and CPU time beside a peer's (2 minutes; BENCHFLAGS="-only accept")
	go -C bench run . -costs $(BENCHFLAGS)

.PHONY: growth
growth: check-servers ## measure costs as backlog, users, processes and shards grow, up to a million (8 minutes, 3 GB); writes docs/measurements/scale.md
	GROWTH_DOCS=../docs/measurements go -C bench test -count=1 -timeout 60m -v -tags growth -run TestGrowth .

.PHONY: pictures
pictures: check-servers ## make the picture of README.md from a run of the demo (6 minutes)
	scripts/pictures.sh

.PHONY: docs
docs: check-servers ## write the tables and pages that are made from code, and the responses of the API's examples
	go test -count=1 -run TestAPIExamplesAreTrue ./test/docs -update
	go test -count=1 -run TestOpenAPIDocument ./internal/httpapi -update
	go test -count=1 -run TestPagesAreWrittenFromTheCode ./internal/settings -update
	go test -count=1 -run TestRunbook ./test/night -update

# The packages that have benchmarks: to build the tests of all would take a minute more.
BENCHED = $(shell grep -rl '^func Benchmark' --include='*_test.go' client cmd internal test | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: bench-smoke
bench-smoke: check-servers ## run every benchmark once and small, to see that it still works
	go test -run '^$$' -bench . -benchtime 1x $(BENCHED)
	go -C bench test -count=1 ./...

.PHONY: lint
lint: ## run the linters (built from source the first time: some minutes)
	$(LINT) run --build-tags $(LINT_TAGS)
	$(LINT) run $(UNTAGGED) # has files that only a build without these tags has
	$(if $(BENCH_MODULE),cd $(BENCH_MODULE) && $(LINT) run --build-tags $(BENCH_LINT_TAGS))

.PHONY: fmt
fmt: ## format all Go files
	$(LINT) fmt

.PHONY: tidy-check
tidy-check: ## fail when a go.mod or go.sum is not what go mod tidy would write
	@for m in $(MODULES); do echo "go -C $$m mod tidy -diff"; go -C "$$m" mod tidy -diff; done

.PHONY: vuln
vuln: ## look for known vulnerabilities in what the programs and tests call (asks the Go vulnerability database)
	@for m in . $(BENCH_MODULE); do echo "govulncheck $$m"; (cd "$$m" && $(VULN) -test ./...); done

.PHONY: install-servers
install-servers: $(INSTALLED_NODE_PACKAGES) ## install what the tests start, where it is missing: with apt, dnf, apk or brew, and npm
	@for program in $(SERVERS); do scripts/need.sh $$program; done

# With install-servers beside another target, also under make -j, it is not asked for before it is there.
.PHONY: check-servers
check-servers: $(filter install-servers,$(MAKECMDGOALS)) ## say what the tests start and is not there; installs nothing
	@missing=0; for program in $(SERVERS); do scripts/need.sh --check $$program || missing=1; done; \
	for package in $(NODE_PACKAGES); do scripts/need.sh --check-package $$package || missing=1; done; exit $$missing

# What the tests need of Node: libraries that read what the senders send, and rules of accessibility.
%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	@scripts/need.sh node
	npm ci --silent --prefix $*
	@touch $@

.PHONY: ci
ci: ## run what the continuous integration runs; it installs what is missing, as install-servers does
	.ci/run

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

# The house's front door: `make` lists what it can do. Set-up steps leave stamps, so nothing is done twice.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

VENV := .venv
PY := $(VENV)/bin/python
DONE := $(VENV)/.done
CODE := placet bench examples tests

# The first Python that is new enough, or a much faster one; `make PYTHON=/path/to/python …` overrules it.
PYTHON ?= $(shell deploy/python.sh)

.PHONY: help
help: ## List these commands
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- set-up -----------------------------------------------------------------------------------------------

.PHONY: setup
setup: $(DONE)/project $(DONE)/frontend ## Install everything that Placet needs to run, into .venv

$(DONE)/venv:
	@python="$(PYTHON)"; "$${python:-false}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "placet: Python 3.11 or newer is needed and was not found; install it, or name it: make PYTHON=/path/to/python" >&2; exit 1; }; \
	"$$python" -m placet.deploy.install venv $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/runtime: requirements.lock $(DONE)/venv
	@$(PY) -m placet.deploy.install packages requirements.lock
	@touch $@

$(DONE)/project: pyproject.toml $(DONE)/runtime
	@$(PY) -m placet.deploy.install project .
	@touch $@

$(DONE)/frontend: deploy/frontend/package-lock.json deploy/frontend/install.py deploy/frontend/node.lock $(DONE)/venv
	@$(PY) -m placet.deploy.frontend.install
	@touch $@

$(DONE)/tests: requirements-test.lock $(DONE)/runtime
	@$(PY) -m placet.deploy.install packages requirements-test.lock
	@touch $@

$(DONE)/clients: tests/clients/package-lock.json deploy/frontend/install.py $(DONE)/frontend
	@$(PY) -m placet.deploy.frontend.install --clients
	@touch $@

# --- running ----------------------------------------------------------------------------------------------

.PHONY: up
up: setup ## Start Placet in one process (PORT=8080 DATA=folder RULEBOOK=file TOOLS=folder)
	@exec $(VENV)/bin/placet up $(if $(PORT),--port "$(PORT)") $(if $(DATA),--data "$(DATA)") $(if $(RULEBOOK),--rulebook "$(RULEBOOK)") $(if $(TOOLS),--tools "$(TOOLS)")

.PHONY: compose-env
compose-env: ## Write random passwords for `docker compose up` into .env
	@deploy/env.sh .env

.PHONY: pin-images
pin-images: ## Pin the images from elsewhere to their digests in .env, for `docker compose build`
	@deploy/pin-images.sh .env

# --- checking ---------------------------------------------------------------------------------------------

.PHONY: check
check: $(DONE)/tests $(DONE)/project ## Lint, format, types, import rules, sizes of files, subjects of new commits
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy $(CODE)
	$(VENV)/bin/lint-imports
	$(PY) -m pytest -q tests/contract/test_house.py
	$(PY) -m placet.deploy.commits

# Finds PostgreSQL and RabbitMQ or starts private ones, then runs what follows with their addresses set.
WITH_SERVICES := $(PY) -m tests.support.services
PYTEST := $(PY) -m pytest
#: Files of tests that run at once: enough for two cores, since tests of whole systems mostly wait.
WORKERS ?= 3
AT_ONCE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: test
test: setup $(DONE)/tests $(DONE)/clients ## Run every test (ARGS="-k words" to choose)
	$(WITH_SERVICES) --browser $(PYTEST) $(AT_ONCE) $(ARGS)

#: Rounds of each race.
ROUNDS ?= 1000
RACES := tests/integration/approval/test_races.py tests/integration/approval/test_vote_races.py \
  tests/integration/policy/test_limits.py tests/integration/policy/test_grants.py tests/integration/executor/test_races.py

#: End-to-end tests of what frontends speak.
DIALECTS := $(addprefix tests/e2e/,test_a_chat_widget.py test_a_deploy_assistant.py test_a_shop_assistant.py test_ag_ui.py \
  test_ai_sdk.py test_ai_sdk_pages.py test_amqp_frontend.py test_an_agent_platform.py test_chat_page.py test_client.py \
  test_copilotkit.py test_messages_beside_decisions.py test_openai.py test_openai_agents.py test_openai_outcomes.py \
  test_surfaced_cards.py)

.PHONY: test-races
test-races: setup $(DONE)/tests ## Run races and properties for long, as every night should (ROUNDS=1000)
	PLACET_TEST_RACE_ROUNDS=$(ROUNDS) $(WITH_SERVICES) $(PYTEST) $(RACES) $(ARGS)
	PLACET_TEST_RACE_ROUNDS=$(ROUNDS) $(PYTEST) tests/unit -m hypothesis $(ARGS)

.PHONY: test-unit
test-unit: setup $(DONE)/tests ## Run the tests that need no services
	$(PYTEST) $(wildcard tests/unit tests/contract) $(ARGS)

.PHONY: test-integration
test-integration: setup $(DONE)/tests ## Run the tests against PostgreSQL and RabbitMQ
	$(WITH_SERVICES) --browser $(PYTEST) $(AT_ONCE) tests/integration $(ARGS)

.PHONY: test-e2e
test-e2e: setup $(DONE)/tests $(DONE)/clients ## Run the tests of the whole system from outside
	$(WITH_SERVICES) --browser $(PYTEST) $(AT_ONCE) tests/e2e $(ARGS)

#: Longest delay before a publish, in seconds, and the seed of the delays; a failing run is repeated with its seed.
DELAYS ?= 0.4
SEED ?= $(shell date +%j)

.PHONY: test-delays
test-delays: setup $(DONE)/tests $(DONE)/clients ## Run the tests of all dialects with random delays on every publish, as every night should
	@echo "test-delays: DELAYS=$(DELAYS) SEED=$(SEED)"
	DELAYS=$(DELAYS) SEED=$(SEED) $(WITH_SERVICES) --browser $(PYTEST) $(AT_ONCE) $(DIALECTS) $(ARGS)

#: How often each kill point is reached before the process ends: every time from the first to this one.
HITS ?= 1

.PHONY: test-kills
test-kills: setup $(DONE)/tests ## Kill each service at each named point (HITS=3, as every night should)
	KILL_HITS=$(HITS) $(WITH_SERVICES) $(PYTEST) tests/e2e/test_kill_points.py tests/e2e/test_kills.py $(ARGS)

#: How long things are broken, in minutes; the start before it and the rest after it come on top.
MINUTES ?= 0.5

.PHONY: chaos
chaos: setup $(DONE)/tests ## Break a whole system again and again, and see that nothing is lost (SEED=7 MINUTES=15)
	$(PY) -m tests.chaos $(if $(filter command line environment,$(origin SEED)),--seed $(SEED)) --minutes $(MINUTES) $(ARGS)

.PHONY: test-faults
test-faults: setup $(DONE)/tests ## Break broker, database, network and clocks one at a time, as every night should
	FAULTS=1 $(WITH_SERVICES) $(PYTEST) tests/e2e/test_faults.py tests/e2e/test_cut_commits.py $(ARGS)

.PHONY: test-mutants
test-mutants: setup $(DONE)/tests ## Break one defence at a time and see that its tests fail (ARGS="names")
	$(WITH_SERVICES) $(PY) -m tests.mutants.run $(ARGS)

.PHONY: bench
bench: setup $(DONE)/tests ## Measure Placet beside the floors (SHORT=1 quick, ONLY=gated,inbox parts, TRACE=1 one call)
	PYTHONPATH=examples $(WITH_SERVICES) --durable $(PY) -m bench $(if $(SHORT),--short) $(if $(ONLY),--only "$(ONLY)") $(if $(TRACE),--trace)

.PHONY: house
house: setup $(DONE)/tests ## Weigh the house: lines, files, what a call walks through, words
	PYTHONPATH=examples $(WITH_SERVICES) $(PY) -m bench --only house

# --- keeping house ----------------------------------------------------------------------------------------

.PHONY: docs
docs: $(DONE)/project ## Draw again what comes from code: pages, the baseline of the database, settings
	$(PY) -m placet.deploy.docs
	$(PY) -m placet.deploy.migrations.baseline
	$(PY) -m placet.deploy.example_env
	$(PY) -m placet.deploy.rabbitmq.definitions

LOCK := pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock" --quiet $(if $(UPGRADE),--upgrade)

# One lock file per image, each a part of requirements.lock. The command line's has PostgreSQL's programs for backups.
IMAGES := gateway agent policy approval notifier executor jobs dead_letters cli

.PHONY: lock
lock: $(DONE)/venv ## Pin every dependency again (UPGRADE=1 to take newer ones)
	@$(PY) -m pip install --quiet 'uv>=0.9,<1'
	$(VENV)/bin/uv $(LOCK) pyproject.toml --all-extras --group build --output-file requirements.lock
	$(VENV)/bin/uv $(LOCK) --group test --group lint --constraint requirements.lock --output-file requirements-test.lock
	for image in $(IMAGES); do \
		$(VENV)/bin/uv $(LOCK) pyproject.toml $$([ $$image = cli ] && echo --extra embedded) --extra $$image --constraint requirements.lock \
			--output-file deploy/locks/$$image.lock; done
	cd deploy && ../$(VENV)/bin/uv $(LOCK) sbom.in --output-file sbom.lock
	cd deploy/frontend && ../../$(VENV)/bin/uv $(LOCK) node.in --output-file node.lock
	$(PY) -m placet.deploy.frontend.install --lock
	$(PY) -m placet.deploy.frontend.install --lock --clients

.PHONY: advisories
advisories: $(DONE)/tests ## Look up known weaknesses of every pinned package in a copy of the OSV database (DATABASE=folder)
	$(PY) -m placet.deploy.advisories $(DATABASE)

.PHONY: clean
clean: ## Remove what set-up and tests left behind (never your data)
	rm -rf $(VENV) node_modules deploy/frontend/node_modules tests/clients/node_modules services/gateway/web/static/vendor
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

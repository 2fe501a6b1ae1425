# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. PYTHON=python3.12 chooses the interpreter of the environment.

# make_env.py runs with Python 3.8 or later, and searches for a version that the package supports.
BOOT := $(shell command -v python3 || command -v python3.12 || command -v python3.11 || command -v python3.10)
BIN := .venv/bin
SITE := .site
LEROBOT := .lerobot
CELL ?= config/dual_sim.yaml
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help env sim test test-slow test-all test-lerobot check count render docs site bench robustness chaos crowd soak colcon clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 16

env: ## make or update .venv
	@if [ -z "$(BOOT)" ]; then echo "no python3 on PATH: apt install python3 python3-venv" >&2; exit 1; fi
	@$(BOOT) tools/make_env.py

sim: env ## run the dual-arm MuJoCo cell as a ROS 2 node (CELL=config/other.yaml)
	ROS_AUTOMATIC_DISCOVERY_RANGE=$${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST} $(BIN)/multimode_controller --ros-args --params-file $(CELL) $(ARGS)

test: env ## run all tests except the slow ones (ARGS=--times=150, ARGS=test/control)
	tools/test.sh -m "not slow" $(ARGS)

test-slow: env ## run the slow tests; .ci/run runs both
	tools/test.sh -m slow $(ARGS)

test-all: env ## run all tests with hundreds of random episodes (hours)
	MULTIPANDA_LONG=1 tools/test.sh --timeout 0 $(ARGS)

test-lerobot: env $(LEROBOT)/made ## test data sets and policies with LeRobot 0.4.4 in its own environment
	rm -rf $(LEROBOT)/episodes
	$(BIN)/python tools/lerobot/record.py $(LEROBOT)/episodes $(LEROBOT)/expected.npz
	PYTHONPATH=tools/lerobot HF_HUB_OFFLINE=1 HF_HOME=$(LEROBOT)/cache $(LEROBOT)/env/bin/python \
	  tools/lerobot/validate.py $(LEROBOT)/episodes $(LEROBOT)/expected.npz
	PYTHONPATH=tools/lerobot/act:multipanda_py/learning/policies/server HF_HUB_OFFLINE=1 HF_HOME=$(LEROBOT)/cache \
	  $(LEROBOT)/env/bin/python tools/lerobot/act/train.py $(LEROBOT)/episodes $(LEROBOT)/policy
	HF_HUB_OFFLINE=1 $(BIN)/python tools/lerobot/act/act.py $(LEROBOT)/policy $(LEROBOT)/env/bin/python

# --no-deps, because LeRobot requires many packages that reading its files does not need, and a torch
# with CUDA.
$(LEROBOT)/made: tools/lerobot/requirements.txt
	$(BIN)/python -m venv --clear $(LEROBOT)/env
	$(LEROBOT)/env/bin/python -m pip install -q --progress-bar=off -r $<
	$(LEROBOT)/env/bin/python -m pip install -q --progress-bar=off --no-deps lerobot==0.4.4 torchvision==0.29.1
	touch $@

check: env ## check format, lint, types, directions of imports and language
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tools/check_language.py

count: env ## compare the instructions of a cycle with the accepted numbers (ARGS=--accept)
	$(BIN)/python benchmarks/instructions.py $(ARGS)

render: env ## render a video of the simulated cell, for the README
	$(BIN)/multipanda render config/dual_sim.yaml -o doc/images/dual_sim.gif --demo --seconds 6 $(ARGS)

docs: env ## write doc/parameters.md and doc/rows.md from the declarations in the code
	$(BIN)/multipanda list --markdown --built-in > doc/parameters.md.new
	mv doc/parameters.md.new doc/parameters.md
	$(BIN)/python tools/record_reference.py > doc/rows.md.new
	mv doc/rows.md.new doc/rows.md

site: $(SITE)/made ## build the documentation as a web site, into .site/html
	$(SITE)/env/bin/sphinx-build -q -W --keep-going -d $(SITE)/read doc $(SITE)/html
	$(SITE)/env/bin/python tools/check_links.py $(SITE)/html

$(SITE)/made: doc/requirements.txt
	$(BOOT) -m venv --clear $(SITE)/env
	$(SITE)/env/bin/python -m pip install -q --progress-bar=off -r $<
	touch $@

bench: env ## measure the speed of this machine, and write bench/ (ARGS="--quick")
	$(BIN)/multipanda bench $(ARGS)

robustness: env ## write doc/robustness.md, then run the long random tests (hours)
	$(BIN)/python benchmarks/robustness/map.py
	$(BIN)/python benchmarks/robustness/page.py
	MULTIPANDA_LONG=1 $(BIN)/python -m pytest -m robustness --timeout 0 $(ARGS)

chaos: env ## inject faults, floods and invalid inputs, and write the failures to doc/faults.md (half an hour)
	$(BIN)/python benchmarks/chaos/run.py --write $(ARGS)

crowd: env ## run 50 clients that switch controllets and set parameters at random for 1 min (ARGS="--clients 20")
	$(BIN)/python benchmarks/chaos/run.py --only crowd $(ARGS)

soak: env ## run the node for half an hour; report growth of memory and causes of late cycles (ARGS="--minutes 5")
	$(BIN)/python benchmarks/chaos/run.py --only soak $(ARGS)

colcon: env ## build and test in a temporary colcon workspace
	tools/colcon_check.sh

clean: ## remove files of builds and tests, but not .venv
	rm -rf build install log *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find multipanda_py test tools examples benchmarks launch -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

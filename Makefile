# One environment, .venv, made once from the pins in constraints.txt and made again only when they change.
PYTHON ?= python3
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PEER ?=
PARTS ?=
CPPRB ?=
SPIEL ?=
SB3 ?=
FULL ?=
# What to install: dev,simulators adds the Box2D and MuJoCo environments.
EXTRAS ?= dev

ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
PY  := $(BIN)/python
OLDEST := $(subst .venv,.venv-oldest,$(PY))
LIBS := $(subst .venv,.venv-libs,$(PY))
PIP := $(PY) -m pip --disable-pip-version-check

.PHONY: lab test test-deep test-oldest test-libs lint bench notebooks specimens clean
.DEFAULT_GOAL := test

# torch goes first and alone: only this step may look at the CPU index, so that no resolver ever meets a CUDA build.
.venv/.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) install -q --no-deps --retries 0 --extra-index-url $(TORCH_INDEX) -c constraints.txt torch
	$(PIP) install -q -c constraints.txt -e .[$(EXTRAS)]
	$(PY) -c "import pathlib; pathlib.Path('$@').touch()"

# JupyterLab refuses to serve root, as whom containers run, unless told; LAB passes on whatever else it should know.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
LAB ?=
# JupyterLab refuses an option given twice, and the first lesson is found in its own folder only.
COURSE := $(if $(findstring default_url,$(LAB)),,--LabApp.default_url=/lab/tree/00_welcome.ipynb)
COURSE := $(if $(findstring notebook-dir,$(LAB))$(findstring root_dir,$(LAB)),,--notebook-dir=tutorials $(COURSE))

lab: .venv/.stamp
	$(PY) -m jupyter lab $(AS_ROOT) $(COURSE) $(LAB)

# Containers set it; the tests start hundreds of processes, each of which would compile the library anew.
unexport PYTHONDONTWRITEBYTECODE

PYTEST := $(PY) -m pytest -n auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

test: .venv/.stamp
	$(PYTEST) -m "not deep"

# The long rest: fuzzing, soak tests, whole products of parameters, lessons in both themes, more examples of properties.
test-deep: .venv/.stamp
	$(PYTEST) -m "deep or hypothesis" --hypothesis-profile=deep

# The library and the widgets with the lowest version of each dependency that pyproject.toml admits.
.venv-oldest/.stamp: pyproject.toml constraints.txt tests/oldest.py
	$(PYTHON) -m venv .venv-oldest
	$(OLDEST) tests/oldest.py > .venv-oldest/constraints.txt
	$(OLDEST) -m pip install -q --no-deps --retries 0 --extra-index-url $(TORCH_INDEX) -c constraints.txt torch
	$(OLDEST) -m pip install -q -c .venv-oldest/constraints.txt -e .[test]
	$(OLDEST) -c "import pathlib; pathlib.Path('$@').touch()"

test-oldest: .venv-oldest/.stamp
	$(OLDEST) -m pytest -n auto --maxprocesses=4 --dist=loadfile -m "not deep" rlnb \
	  $(addprefix tests/,collectors data envs modules objectives record search widgets)

# The wrappers of libraries of environments beside the real libraries, which have an environment of their own.
.venv-libs/.stamp: tests/libs/constraints.txt
	$(PYTHON) -m venv .venv-libs
	$(LIBS) -m pip install -q --no-deps --retries 0 --extra-index-url $(TORCH_INDEX) -c $< torch
	$(LIBS) -m pip install -q -c $< -e .[test] -r tests/libs/requirements.txt
	$(LIBS) -c "import pathlib; pathlib.Path('$@').touch()"

test-libs: .venv-libs/.stamp
	$(LIBS) -m pytest -n auto --maxprocesses=4 --dist=loadfile tests/libs tutorials/34_six_worlds.ipynb

lint: .venv/.stamp
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

# PEER, CPPRB, SPIEL and SB3 name interpreters that have torchrl, cpprb, open_spiel and stable-baselines3, PARTS some of
# the comparisons, and FULL=1 lets training go on until it has solved its task, with five seeds:
# make bench PEER=~/trl/bin/python PARTS="rollouts specs"
bench: .venv/.stamp
	$(PY) -m tests.benchmarks $(if $(PEER),--peer $(PEER)) $(if $(CPPRB),--cpprb $(CPPRB)) $(if $(SPIEL),--spiel $(SPIEL)) \
	  $(if $(SB3),--sb3 $(SB3)) $(if $(FULL),--full) $(PARTS)

# NB names some of them: make notebooks NB="00_welcome.ipynb 01_rollouts_and_ted.ipynb"
notebooks: .venv/.stamp
	$(PY) tutorials/execute.py $(NB)

# Photographs of all visualizers, light and dark, at three widths, in screenshots/specimens.
specimens: .venv/.stamp
	$(PY) -m tests.browser.specimens

clean:
	$(PYTHON) -c "import shutil; [shutil.rmtree(d, ignore_errors=True) for d in ('.venv', '.venv-oldest', '.venv-libs', '.pytest_cache', '.ruff_cache', '.mypy_cache', '.hypothesis', 'build', 'dist', 'screenshots')]"

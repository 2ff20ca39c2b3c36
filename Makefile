.PHONY: check test test-unit test-slow test-all test-dist test-gpu chaos bench bench-peers bench-gpu demo screens

PYTEST = pytest -n 2 --dist loadgroup

check:  ## style, types, layers
	ruff check
	ruff format --check
	mypy
	lint-imports

test:  ## every layer, two processes, a kill and a resume: about 13 minutes on two cores
	$(PYTEST) -m "not slow and not gpu and not chaos"

test-unit:  ## no processes: 1.5 minutes
	$(PYTEST) -m "not slow" tests/unit

test-slow:  ## what `make test` leaves out, except GPU and chaos
	$(PYTEST) -m "slow and not gpu and not chaos"

test-all:  ## everything except GPU and chaos
	$(PYTEST) -m "not gpu and not chaos"

test-dist:  ## the tests that start several processes
	$(PYTEST) -m "not chaos" tests/distributed

test-gpu:
	pytest -m gpu

chaos:  ## all faults, and what is repeated elsewhere: about an hour
	pytest tests/faults
	pytest -m chaos --ignore tests/faults

bench:  ## speed against a bare loop, alternating
	python benchmarks/against_bare.py

bench-peers:  ## speed, then accuracy, against other trainers, which pip install -e '.[bench]' brings: about an hour
	python -m benchmarks.peers --figure benchmarks/peers.svg
	python -m benchmarks.peers --accuracy

bench-gpu:  ## speed on a GPU against a bare loop and against other trainers
	python -m benchmarks.gpu
	python benchmarks/techniques.py --device cuda
	python -m benchmarks.peers --device cuda --processes 1 --batch-sizes 64 256 1024 --images 60000

demo:  ## the main job, on one process and on two
	accel_train train
	accel_train train --processes 2

screens:  ## what people see, in terminals of tmux, as docs/screens.md: two minutes
	python docs/screens.py

.PHONY: check test test-dist test-gpu bench demo

check:  ## style, types, layers
	ruff check
	ruff format --check
	mypy
	lint-imports

test:  ## everything but what needs a GPU
	pytest -m "not gpu"

test-dist:  ## the tests that start several processes
	pytest tests/distributed

test-gpu:
	pytest -m gpu

bench:  ## speed against a bare loop, alternating
	python benchmarks/against_bare.py

demo:  ## the main job, on one process and on two
	accel_train train
	accel_train train --processes 2

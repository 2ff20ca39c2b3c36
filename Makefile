.PHONY: check test test-dist test-gpu chaos bench bench-peers bench-gpu demo

check:  ## style, types, layers
	ruff check
	ruff format --check
	mypy
	lint-imports

test:  ## everything but what needs a GPU or an hour
	pytest -m "not gpu and not chaos"

test-dist:  ## the tests that start several processes
	pytest -m "not chaos" tests/distributed

test-gpu:
	pytest -m gpu

chaos:  ## every fault, as often as it takes to believe it: about an hour
	pytest tests/faults

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

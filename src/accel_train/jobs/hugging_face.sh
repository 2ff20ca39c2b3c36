#!/bin/bash
# Made by {{ made_by }}
# Before: pip install "huggingface_hub>=2.4", then hf auth login.
# Start it: bash FILE. Follow it: hf jobs logs -f ID.
# The job works in the bucket {{ bucket }}: paths are relative to it.
# One that fails is started again, {{ attempts }} times in all. Before its time is over
# the run saves and stops; start this file again, and it resumes.
{{ words | command }}

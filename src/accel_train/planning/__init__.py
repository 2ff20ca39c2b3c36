"""What a run will need, before there is a GPU to run it on: memory, traffic, time and price by strategy."""

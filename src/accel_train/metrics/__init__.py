"""What the predictions of a model are worth; numpy only."""

"""Options of train become the words of a command again."""

from accel_train.jobs.train_options import as_text, as_words


def test_values_become_words() -> None:
    options = {"exact": True, "report": False, "batch_size": 32, "milestones": [30.0, 60.0], "output": None}
    assert list(as_words(options)) == ["--exact", "--no-report", "--batch-size", "32", "--milestones", "30,60"]
    assert list(as_words(options, joined=True)) == ["--exact", "--no-report", "--batch-size=32", "--milestones=30,60"]


def test_text_of_a_list_has_commas() -> None:
    assert as_text(["csv", "wandb"]) == "csv,wandb"
    assert as_text(0.1) == "0.1"

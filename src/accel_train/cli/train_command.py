"""The command that trains with the options of another command."""

from collections.abc import Collection, Mapping

from accel_train.config.derived import file_of
from accel_train.config.options import TYPED, TrainConfig
from accel_train.jobs.train_options import as_words
from accel_train.recipes.read import ORIGIN, lacks_data


def train_command(config: TrainConfig, origins: Mapping[str, str], without: Collection[str] = ()) -> list[str]:
    """Return the words of the command: the file or recipe and the options that were given, some left out.

    Data that a recipe leaves to the user are ``--data DIR``.
    """
    values = config.model_dump(mode="json", include=TrainConfig.model_fields.keys() - set(without))
    typed = {name: value for name, value in values.items() if origins.get(name) in TYPED}
    files = dict.fromkeys(file_of(origin) for origin in origins.values() if origin not in TYPED)
    from_files = [
        word
        for file in files
        for word in (("--recipe", file.removeprefix(ORIGIN)) if file.startswith(ORIGIN) else ("--config", file))
    ]
    missing = ["--data", "DIR"] if lacks_data(config.data, origins.get("data", "")) else []
    return ["accel_train", "train", *from_files, *missing, *as_words(typed)]

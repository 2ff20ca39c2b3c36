"""Commands are found by name, in the order of the help."""

import pytest

from accel_train.cli.commands import Commands

NAMES = list(Commands().commands)


def test_names_are_listed_in_the_order_of_the_help() -> None:
    assert NAMES[0] == "train"
    assert len(NAMES) == len(set(NAMES)) > 10
    assert Commands().list_commands(None) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_command_is_found_with_its_help(name: str) -> None:
    command = Commands().commands[name]
    assert (command.name, bool(command.help)) == (name, True)
    options = {option for parameter in command.params for option in parameter.opts}
    assert not any(option.endswith("-completion") for option in options)
    assert bool(command.epilog) == ("--help-all" in options)


def test_unknown_command_is_not_found() -> None:
    assert Commands().commands.get("trian") is None

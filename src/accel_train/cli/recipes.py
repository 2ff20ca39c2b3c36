"""The command ``recipes``."""

from typing import Annotated

import typer

from accel_train.cli.table import Column, table_lines, terminal_width
from accel_train.distributed.launcher import check_alone
from accel_train.recipes.read import Recipe, find, names

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Recipe to print: a YAML file of options, for --config.")
]


def recipes(name: Name = None) -> None:
    """List the recipes: run configs, with what each has reached where it was measured; or print one."""
    check_alone("recipes")
    if name is not None:
        typer.echo(find(name).text, nl=False)
        return
    found = [find(each) for each in names()]
    for line in table_lines(_columns(found), terminal_width()):
        typer.echo(line)
    typer.echo("next: accel_train train --recipe digits")


def _columns(found: list[Recipe]) -> list[Column]:
    def column(key: str, importance: int) -> Column:
        return Column(key, [recipe.head[key] for recipe in found], importance, left=True)

    return [
        Column("recipe", [recipe.name for recipe in found], 9, left=True),
        column("accuracy", 8),
        column("time", 7),
        column("hardware", 6),
        Column("measured", [recipe.measured_on or "not here" for recipe in found], 5, left=True),
        Column("what it does", [recipe.about for recipe in found], 4, left=True),
    ]

"""The table has a row for every variable that Accelerate or torchrun sets or reads."""

import ast
from pathlib import Path

import accelerate
import pytest
import torch.distributed

from accel_train.distributed.environment_check import row_of
from accel_train.distributed.environment_table import CLOSED, TABLE, Obeyed
from accel_train.distributed.environment_values import flag, port, thread_counts

ACCELERATE = Path(accelerate.__file__).parent
TORCH = Path(torch.distributed.__file__).parent
READERS = ("get", "setdefault", "pop", "getenv", "parse_flag_from_env", "parse_choice_from_env", "get_int_from_env")


class Names(ast.NodeVisitor):
    """Collects the names of environment variables in a module, with prefixes that its variables hold."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: set[str] = set()
        self._constants = {
            target.id: node.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Constants of a function, such as `prefix`, win over those of others."""
        before = dict(self._constants)
        for part in ast.walk(node):
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant):
                self._constants |= {t.id: part.value.value for t in part.targets if isinstance(t, ast.Name)}
        self.generic_visit(node)
        self._constants = before

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of_environment = not isinstance(node.func, ast.Attribute) or _is_environment(node.func.value)
        if name in READERS and node.args and (of_environment or name == "getenv"):
            self._take(node.args[0])
        if name == "patch_environment":
            self.found |= {keyword.arg.upper() for keyword in node.keywords if keyword.arg}
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _is_environment(node.value):
            self._take(node.slice)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if _is_environment(node.comparators[0]):
            self._take(node.left)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Dict) and any(map(_is_environment, node.targets)):
            for key in node.value.keys:
                self._take(key)
        self.generic_visit(node)

    def _take(self, node: ast.expr | None) -> None:
        if isinstance(node, ast.List):
            for part in node.elts:
                self._take(part)
        elif name := self._text(node):
            self.found.add(name)

    def _text(self, node: ast.expr | None) -> str:
        if isinstance(node, ast.BinOp):
            first, second = self._text(node.left), self._text(node.right)
            return first + second if first and second else ""
        if isinstance(node, ast.Name):
            return str(self._constants.get(node.id, ""))
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_environment(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return str(name).lower().endswith(("env", "environ", "environment"))


def names_in(folders: list[Path]) -> set[str]:
    return {
        name
        for folder in folders
        for file in ([folder] if folder.is_file() else folder.rglob("*.py"))
        if "test_utils" not in file.parts
        for name in Names(ast.parse(file.read_text(encoding="utf-8"))).found
        if name.isupper()
    }


NAMES = {
    "accelerate": names_in([ACCELERATE]),
    "torchrun": names_in([TORCH / "elastic", TORCH / "launcher", TORCH / "run.py", TORCH / "launch.py"]),
}
KNOWN = {
    "accelerate": {
        *("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_FP8_MARGIN", "PMI_SIZE"),
        *("ACCELERATE_USE_CPU", "FSDP_VERSION", "FSDP_OFFLOAD_PARAMS", "PARALLELISM_CONFIG_TP_SIZE", "KMP_AFFINITY"),
        *("MEGATRON_LM_TP_DEGREE", "OMP_NUM_THREADS", "FORK_LAUNCHED", "ACCELERATE_CONFIG_DS_FIELDS", "MASTER_PORT"),
    },
    "torchrun": {"RANK", "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "OMP_NUM_THREADS"},
}


@pytest.mark.parametrize("program", NAMES)
def test_walk_finds_what_is_known(program: str) -> None:
    assert KNOWN[program] <= NAMES[program]
    assert len(NAMES["accelerate"]) > 140


@pytest.mark.parametrize("program", NAMES)
def test_every_variable_of_a_launcher_has_a_row(program: str) -> None:
    assert sorted(name for name in NAMES[program] if row_of(name) is None) == []


def test_variables_of_accelerate_have_rows_of_their_own_or_a_family_that_cannot_hide_new_ones() -> None:
    families = {name for name in TABLE if name.endswith("*") and name.startswith(CLOSED)}
    of_accelerate = {name for name in families if not name.startswith("ACCEL_TRAIN_")}
    assert of_accelerate == {
        *("ACCELERATE_DEEPSPEED_*", "ACCELERATE_FP8_*", "ACCELERATE_DYNAMO_*"),
        *("MEGATRON_LM_*", "PARALLELISM_CONFIG_*"),
    }


def test_unknown_names_have_no_row() -> None:
    for name in ("ACCELERATE_NEW", "FSDP_NEW", "ACCEL_TRAIN_EPOCHS", "PATH", "HOME"):
        assert row_of(name) is None


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("True", True), ("on", True), ("", False), ("no", False), ("FALSE", False)]
)
def test_flag_is_read_as_accelerate_reads_it(value: str, expected: bool) -> None:
    assert flag(value) is expected


@pytest.mark.parametrize(("value", "expected"), [("4", 4), ("4,3,2", 4), (" 2 ", 2)])
def test_first_number_of_threads_counts(value: str, expected: int) -> None:
    assert thread_counts(value) == expected


@pytest.mark.parametrize("value", ["0", "-1", "4,", "x", "1.5", "²", "4,0"])
def test_malformed_number_of_threads_is_rejected(value: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        thread_counts(value)


@pytest.mark.parametrize("value", ["0", "65536", "http"])
def test_impossible_port_is_rejected(value: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        port(value)


def test_options_that_override_a_variable_exist() -> None:
    from accel_train.config.options import TrainConfig

    overriding = {option for row in TABLE.values() if isinstance(row, Obeyed) for option in row.unless}
    assert overriding <= set(TrainConfig.model_fields)
    assert {"precision", "device", "strategy", "threads", "exact"} == overriding

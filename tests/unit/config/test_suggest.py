"""A wrong name leads to the one that was meant, whatever its case, dashes or ending, and in other trainers' words."""

import pytest

from accel_train.config.options import TrainConfig
from accel_train.config.suggest import OPTIONS, VALUES, did_you_mean, suggestions

KNOWN = ("epochs", "batch-size", "lr", "lr-scaling", "fashion-mnist", "vit_b_16", "vit_l_16", "swin_t", "swin_v2_t")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Epochs", ["epochs"]),
        ("epoch", ["epochs"]),
        ("epochss", ["epochs"]),
        ("ephocs", ["epochs"]),
        ("batch_size", ["batch-size"]),
        ("BatchSize", ["batch-size"]),
        ("FashionMNIST", ["fashion-mnist"]),
        ("fashion", ["fashion-mnist"]),
        ("vit", ["vit_b_16", "vit_l_16"]),
        ("swin", ["swin_t", "swin_v2_t"]),
        ("bs", ["batch-size"]),
        ("learning_rate", ["lr"]),
        ("b", []),
        ("", []),
        ("--", []),
        ("momentum", []),
    ],
)
def test_wrong_name_leads_to_what_was_meant(name: str, meant: list[str]) -> None:
    assert suggestions(name, KNOWN, {"bs": "batch-size", "learning-rate": "lr", "wd": "weight-decay"}) == meant


def test_at_most_three_names_are_suggested() -> None:
    assert suggestions("vit", [f"vit_{letter}_16" for letter in "abcde"]) == ["vit_a_16", "vit_b_16", "vit_c_16"]


def test_hint_names_them_or_something_else() -> None:
    assert did_you_mean(["a", "b"], "choose one of c") == "did you mean a or b?"
    assert did_you_mean([], "choose one of c") == "choose one of c"


def test_synonyms_of_options_are_no_options_and_lead_to_options() -> None:
    ours = {name.replace("_", "-") for name in TrainConfig.model_fields} | {"config"}
    assert set(OPTIONS.values()) <= ours
    assert not OPTIONS.keys() & ours


def test_synonyms_of_values_lead_to_values() -> None:
    fields = TrainConfig.model_fields.values()
    choices = {choice for field in fields for choice in VALUES.values() if f"'{choice}'" in str(field.annotation)}
    assert choices == set(VALUES.values())

"""The identity of a run names what decides the last bits, and tells two machines apart."""

from pathlib import Path

import pytest
import torch

from accel_train.run.identity import describe_cpu, identity_changes, identity_of, identity_text

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) CPU @ 2.80GHz
stepping\t: 7
cpu MHz\t\t: 2800.000
flags\t\t: fpu sse sse2 fma avx avx2 avx512f

processor\t: 1
model name\t: another
"""
GRAVITON = """processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd sve bf16 i8mm
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd40
CPU revision\t: 1
"""


def described(folder: Path, text: str) -> str:
    (folder / "cpuinfo").write_text(text)
    return describe_cpu(folder / "cpuinfo")


def test_cpu_is_named_with_what_distinguishes_it(tmp_path: Path) -> None:
    xeon, graviton = described(tmp_path, XEON), described(tmp_path, GRAVITON)
    assert xeon.startswith("Intel(R) Xeon(R) CPU @ 2.80GHz GenuineIntel/6/85/7 ")
    assert graviton.startswith("0xd40 0x41/0x1/1 ")
    assert described(tmp_path, XEON.replace("2800.000", "3100.000").replace(" fpu", "")) == xeon
    for old, new in (("85", "106"), (": 7", ": 11"), (" avx512f", ""), ("fma", "fma avx512_bf16"), ("2.80", "2.20")):
        assert described(tmp_path, XEON.replace(old, new)) != xeon
    assert described(tmp_path, XEON.replace(" fma", " smep sme svm ibrs fma")) == xeon
    assert described(tmp_path, GRAVITON.replace(" sve", "")) != graviton
    assert described(tmp_path, GRAVITON.replace(" sve", " sve sme")) != graviton
    assert describe_cpu(tmp_path / "missing")
    assert described(tmp_path, "")


def test_identity_follows_threads_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    before = identity_of(torch.device("cpu"))
    assert f"torch {torch.__version__} " in before["libraries"]
    monkeypatch.setenv("MKL_CBWR", " AVX2 ")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "")
    now = identity_of(torch.device("cpu"))
    assert now == before | {"environment": "MKL_CBWR=AVX2"}
    assert identity_text({"device": "cpu", "threads": "1"}) == "device cpu, threads 1"


def test_changes_name_both_values() -> None:
    one, other = {"device": "cpu", "threads": "1"}, {"device": "cpu", "threads": "2", "environment": "A=1"}
    assert identity_changes(one, one) == ""
    assert identity_changes(one, other) == "threads 1 → 2, environment none → A=1"
    assert identity_changes(other, one) == "threads 2 → 1, environment A=1 → none"
